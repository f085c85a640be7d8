import { randomUUID } from 'node:crypto';
import {
  openRedisClaims,
  type BucketEpoch,
  type Claims,
  type ClaimsOptions,
  type OwnerToken,
} from '@triplock/claims';
import { openDynamoClaims } from '@triplock/claims-dynamodb';
import { openHybridClaims } from '@triplock/claims-hybrid';
import { openPostgresClaims, type PostgresClaims } from '@triplock/claims-postgres';
import { runLoop, type Logger, type Service } from '@triplock/runtime';

/** The settings that claim stores are opened by; config.ts says what each is. */
type ClaimSettings = {
  INSTANCE_NAME: string;
  CLAIM_NAMESPACE: string;
  REDIS_URL: string | undefined;
  CLAIMS_DATABASE_URL: string | undefined;
  DYNAMODB_REGION: string | undefined;
  DYNAMODB_TABLE: string;
  DYNAMODB_ENDPOINT: string | undefined;
};

type ClaimStore = {
  /** Settings without which it cannot be opened: readConfig sees to them. */
  needs: readonly (keyof ClaimSettings)[];
  open(settings: ClaimSettings, options: ClaimsOptions): Promise<Claims>;
};

/** What CLAIMS can name, a line each: a store goes with its folder in libs/stores and its line. */
export const claimStores = {
  redis: { needs: ['REDIS_URL'], open: openRedis },
  postgres: { needs: ['CLAIMS_DATABASE_URL'], open: openPostgres },
  hybrid: { needs: ['CLAIMS_DATABASE_URL', 'REDIS_URL'], open: openHybrid },
  dynamodb: { needs: ['DYNAMODB_REGION'], open: openDynamo },
  none: { needs: [], open: openNone },
} as const satisfies Record<string, ClaimStore>;

export type ClaimStoreName = keyof typeof claimStores;

export const claimStoreNames = Object.keys(claimStores) as ClaimStoreName[];

/**
 * Opens the claim store that the settings name, and closes it with the service.
 *
 * @throws RedisPolicyError, PostgresDurabilityError or DynamoTableError when the store is there and
 * may lose claims unnoticed.
 */
export async function openClaims(
  settings: ClaimSettings & { CLAIMS: ClaimStoreName },
  { logger, onClose }: Service,
): Promise<Claims> {
  const store: ClaimStore = claimStores[settings.CLAIMS];
  const claims = await store.open(settings, { namespace: settings.CLAIM_NAMESPACE, logger });
  onClose('claims', () => claims.close());
  return claims;
}

function openRedis({ REDIS_URL }: ClaimSettings, options: ClaimsOptions): Promise<Claims> {
  return openRedisClaims({ ...options, url: REDIS_URL! });
}

async function openPostgres(settings: ClaimSettings, options: ClaimsOptions): Promise<Claims> {
  const { CLAIMS_DATABASE_URL: url, INSTANCE_NAME: applicationName } = settings;
  return reaped(await openPostgresClaims({ ...options, url: url!, applicationName }), options);
}

async function openHybrid(settings: ClaimSettings, options: ClaimsOptions): Promise<Claims> {
  const { CLAIMS_DATABASE_URL, REDIS_URL, INSTANCE_NAME: applicationName } = settings;
  const [url, cacheUrl] = [CLAIMS_DATABASE_URL!, REDIS_URL!];
  return reaped(await openHybridClaims({ ...options, url, cacheUrl, applicationName }), options);
}

function openDynamo(settings: ClaimSettings, options: ClaimsOptions): Promise<Claims> {
  const { DYNAMODB_REGION, DYNAMODB_TABLE: table, DYNAMODB_ENDPOINT: emulator } = settings;
  const endpoint = emulator === undefined ? {} : { emulator };
  return openDynamoClaims({ ...options, region: DYNAMODB_REGION!, table, ...endpoint });
}

/**
 * Guard 1 taken away: it remembers nothing, so every request is the first under its key, and is
 * sure of it. For showing what then escapes, and what the guards behind it still hold.
 */
async function openNone(_settings: ClaimSettings, { logger }: ClaimsOptions): Promise<Claims> {
  logger.warn('CLAIMS is none: every request is treated as the first with its key');
  // An epoch that never ends, with nothing before it: no bucket is ever cold.
  const marker = { epoch: 'none' as BucketEpoch, barrier: '{}' };
  return {
    claim: async ({ acceptedAt }) => {
      return { outcome: 'claimed', token: randomUUID() as OwnerToken, acceptedAt };
    },
    complete: async () => 'completed',
    release: async () => 'released',
    read: async () => ({ outcome: 'unknown' }),
    noteLoss: async () => marker,
    setBarrier: async () => undefined,
    markCold: async () => undefined,
    ping: async () => undefined,
    close: async () => undefined,
  };
}

// A statement of so many is over in a fraction of a second; every gateway reaps, and they share.
const reapRowsMax = 1_000;
const reapEveryMs = 60_000;

/** Takes expired claims out for as long as the service runs. */
function reaped(claims: PostgresClaims, { logger }: { logger: Logger }): Claims {
  const reap = () => claims.reap({ rowsMax: reapRowsMax });
  const reaper = runLoop(reap, { name: 'reap claims', idleMs: reapEveryMs, logger });
  const close = async () => {
    await reaper.stop();
    await claims.close();
  };
  return { ...claims, close };
}
