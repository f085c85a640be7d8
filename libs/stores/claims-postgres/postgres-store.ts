import type { Claims, ClaimStore } from '@triplock/claims';
import { runLoop, url, withDefault, type Logger } from '@triplock/runtime';
import type { PostgresClaims } from './postgres-claims.ts';

const settings = {
  /** As the role triplock_claims, or as triplock_auditor of whoever only compares them. */
  CLAIMS_DATABASE_URL: withDefault(url(['postgres:', 'postgresql:']), undefined),
};

/** Claims in PostgreSQL. */
export const postgresStore = {
  title: 'PostgreSQL',
  parts: ['postgres'],
  settings,
  needs: { claims: ['CLAIMS_DATABASE_URL'], walk: ['CLAIMS_DATABASE_URL'] },
  advice: { CLAIMS_DATABASE_URL: "the claim store's URL" },
  settingsAt: ({ postgres }) => ({ CLAIMS_DATABASE_URL: postgres }),
  open: async ({ CLAIMS_DATABASE_URL }, options) => {
    const { openPostgresClaims } = await import('./postgres-claims.ts');
    return reaped(await openPostgresClaims({ ...options, url: CLAIMS_DATABASE_URL! }), options);
  },
  walk: async ({ CLAIMS_DATABASE_URL }, options) => {
    const { openPostgresWalk } = await import('./postgres-claims.ts');
    return openPostgresWalk({ ...options, url: CLAIMS_DATABASE_URL! });
  },
  inspect: async ({ CLAIMS_DATABASE_URL }, options) => {
    const { inspectPostgresClaims } = await import('./postgres-inspector.ts');
    return inspectPostgresClaims({ ...options, url: CLAIMS_DATABASE_URL! });
  },
} as const satisfies ClaimStore<typeof settings>;

// A statement of so many is over in a fraction of a second; every gateway reaps, and they share.
const reapRowsMax = 1_000;
const reapEveryMs = 60_000;

/** Takes expired claims out until they are closed. */
export function reaped(claims: PostgresClaims, { logger }: { logger: Logger }): Claims {
  const reap = () => claims.reap({ rowsMax: reapRowsMax });
  const reaper = runLoop(reap, { name: 'reap claims', idleMs: reapEveryMs, logger });
  const close = async () => {
    await reaper.stop();
    await claims.close();
  };
  return { ...claims, close };
}
