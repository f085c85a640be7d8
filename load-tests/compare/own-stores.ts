import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { openRedisClaims, type Claims } from '@triplock/claims';
import { createClaimsTable, openDynamoClaims } from '@triplock/claims-dynamodb';
import { openHybridClaims } from '@triplock/claims-hybrid';
import { inspectClaims, type ClaimsInspector } from '@triplock/claims-inspector';
import { openPostgresClaims } from '@triplock/claims-postgres';
import {
  bringUpParts,
  claimStores,
  continueProcess,
  killProcess,
  pauseProcess,
  provisionDatabase,
  takeDown,
  withLock,
  type ClaimStore,
} from '@triplock/launcher';
import type { Terminal } from '@triplock/operator';
import { createLogger } from '@triplock/runtime';

/** A claim store that is compared, and what only this machine's owner can do to it. */
export type ComparedStore = {
  name: ClaimStore;
  open(): Promise<Claims>;
  /** The store, past its claims. */
  reach(): ClaimsInspector;
  /** kill -9 of every server that it consists of, and all of them up again. */
  killAndRestart(): Promise<void>;
};

const home = resolve(import.meta.dirname, '../../.triplock/compare');

/** The servers that each consists of. */
const serversOf = {
  redis: ['redis'],
  postgres: ['postgres'],
  hybrid: ['postgres', 'redis'],
  dynamodb: ['dynamodb'],
} as const satisfies Record<ClaimStore, readonly string[]>;

/** Runs `work` on one of each store, used by nothing else and gone afterwards. */
export async function onOwnStores<Result>(
  { terminal, signal }: { terminal: Terminal; signal: AbortSignal },
  work: (stores: readonly ComparedStore[]) => Promise<Result>,
): Promise<Result> {
  const report = (line: string) => terminal.progress(line);
  const down = () => takeDown({ home, data: 'forget', report });
  mkdirSync(home, { recursive: true });
  return withLock(join(home, 'compare.lock'), { report, signal }, async () => {
    // What one that was killed has left.
    await down();
    try {
      terminal.note('starting the stores');
      return await work(await startStores({ report, signal }));
    } finally {
      await down();
      terminal.clear();
    }
  });
}

type Starting = { report: (line: string) => void; signal: AbortSignal };

/**
 * What the launcher starts beside the stores and no claim needs: it stands still, using nothing.
 */
const bystanders = ['kafka', 'pubsub'];

async function startStores({ report, signal }: Starting): Promise<ComparedStore[]> {
  const start = async () => {
    const parts = await bringUpParts({ home, claims: 'dynamodb', report, signal });
    for (const name of bystanders) await pauseProcess({ home, name });
    return parts;
  };
  const parts = await start();
  const { roles, owner } = await provisionDatabase(
    { url: parts.postgres, origin: 'native' },
    report,
  );
  const dynamo = { region: 'eu-central-1', table: 'triplock-claims', emulator: parts.dynamodb! };
  await createClaimsTable(dynamo);

  const logger = createLogger({ service: 'compare', instance: 'compare', level: 'silent' });
  const open = (name: ClaimStore): Promise<Claims> => {
    // A slow answer is a figure here, and no outage.
    const answerTimeoutMs = 30_000;
    const named = { namespace: name, logger, applicationName: 'compare', answerTimeoutMs };
    switch (name) {
      case 'redis':
        return openRedisClaims({ ...named, url: parts.redis });
      case 'postgres':
        return openPostgresClaims({ ...named, url: roles.claims });
      case 'hybrid':
        return openHybridClaims({ ...named, url: roles.claims, cacheUrl: parts.redis });
      case 'dynamodb':
        return openDynamoClaims({ ...named, ...dynamo });
      default:
        return name satisfies never;
    }
  };
  return claimStores.map((name) => ({
    name,
    open: () => open(name),
    reach: () => inspectClaims({ ...parts, postgres: owner, claims: name, namespace: name }),
    killAndRestart: async () => {
      for (const server of serversOf[name]) await killProcess({ home, name: server });
      for (const each of bystanders) await continueProcess({ home, name: each });
      await start();
    },
  }));
}
