import { randomUUID } from 'node:crypto';
import { loadSql, loadStatements, type Queryable } from '@triplock/postgres';
import type { OwnerToken } from '@triplock/claims';
import type { ReapedOnceStore, StartOutcome } from './once.ts';

const startSql = loadSql(import.meta.url, 'start.sql');

/** The statements of the table `once` but start.sql. */
export const onceSteps = loadStatements(import.meta.url, 'once.sql', [
  'insertKey',
  'lockKey',
  'keepResult',
  'renew',
  'finish',
  'reap',
]);

/** The migrations of the table that effects are remembered in, for a schema of the caller's own. */
export const onceMigrations = new URL('migrations/', import.meta.url);

type StartRow = {
  outcome: StartOutcome['outcome'];
  fence: bigint;
  result: string;
  lease_left_ms: number;
  life_left_ms: number;
};

/** What starting came to, and for how long a result is kept, milliseconds. */
type TimedStart =
  | Exclude<StartOutcome, { result: string }>
  | (Extract<StartOutcome, { result: string }> & { lifeLeftMs: number });

/** A store that also shows for how long a result is kept. */
export type TimedOnceStore = Omit<ReapedOnceStore, 'start'> & {
  start(...asked: Parameters<ReapedOnceStore['start']>): Promise<TimedStart>;
};

// A statement that lost a race sees the winner the next time.
const racesMax = 5;

/** Effects remembered in PostgreSQL, in the schema that the database's role works in. */
export function openPostgresOnce(database: Queryable): TimedOnceStore {
  return {
    async start({ scope, key, fingerprint, leaseMs, keepMs }) {
      const token = randomUUID() as OwnerToken;
      const parameters = [scope, key, fingerprint, token, leaseMs, keepMs];
      for (let race = 0; race < racesMax; race += 1) {
        const [row] = await database.query<StartRow>(startSql, parameters);
        if (row !== undefined) return startOutcome(row, token);
      }
      throw new Error(`lost ${racesMax} races for one key in a row`);
    },
    async renew({ scope, key, token }, leaseMs) {
      const rows = await database.query(onceSteps.renew, [scope, key, token, leaseMs]);
      return rows.length > 0 ? 'renewed' : 'lost';
    },
    async finish({ scope, key, token }, { state, result = null }) {
      const rows = await database.query(onceSteps.finish, [scope, key, token, state, result]);
      return rows.length > 0 ? 'finished' : 'lost';
    },
    async reap({ rowsMax }) {
      return (await database.query(onceSteps.reap, [rowsMax])).length;
    },
  };
}

function startOutcome(row: StartRow, token: OwnerToken): TimedStart {
  const { outcome, fence, result } = row;
  switch (outcome) {
    case 'started':
      return { outcome, token, fence };
    case 'completed':
    case 'failed':
      return { outcome, result, lifeLeftMs: row.life_left_ms };
    case 'in-flight':
      return { outcome, leaseLeftMs: Math.ceil(row.lease_left_ms) };
    case 'reused':
      return { outcome };
    default:
      return outcome satisfies never;
  }
}
