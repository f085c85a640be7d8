import { randomUUID } from 'node:crypto';
import { type Database, type Queryable } from '@triplock/postgres';
import {
  decodeFailure,
  EffectFailedError,
  encodeFailure,
  encodeResult,
  type OnceKey,
  type OnceOutcome,
} from './once.ts';
import { onceSteps } from './postgres-once.ts';

type LockRow = {
  outcome: 'free' | 'completed' | 'failed' | 'reused' | 'in-flight';
  result: string;
  lease_left_ms: number;
};

type Decided<Result> = OnceOutcome<Result> | { outcome: 'failed'; error: EffectFailedError };

/**
 * Has an effect once per key where the effect is in the same database: it and its result commit
 * together or not at all, whatever crashes. A second one with the key waits for the first and then
 * replays its result, or has the effect itself when the first rolled back.
 *
 * An EffectFailedError rolls the effect's writes back and is kept and thrown alike to every repeat;
 * anything else rolls everything back, and the key is as free as before. The table `once`
 * (onceMigrations) has to be on the role's search_path.
 */
export async function onceInTransaction<Result>(
  database: Database,
  step: OnceKey,
  effect: (tx: Queryable) => Promise<Result>,
): Promise<OnceOutcome<Result>> {
  const decided = await database.transaction(async (tx): Promise<Decided<Result>> => {
    const { outcome, result, lease_left_ms: leaseLeftMs } = await lockKey(tx, step);
    switch (outcome) {
      case 'free':
        return perform(tx, step, effect);
      case 'completed':
        return { outcome: 'replayed', result: JSON.parse(result) as Result };
      case 'failed':
        return { outcome, error: decodeFailure(result) };
      case 'in-flight':
        return { outcome, leaseLeftMs: Math.ceil(leaseLeftMs) };
      case 'reused':
        return { outcome };
      default:
        return outcome satisfies never;
    }
  });
  if (decided.outcome === 'failed') throw decided.error;
  return decided;
}

// A reaper may take an expired key out between the insert that met it and the lock.
const racesMax = 5;

async function lockKey(tx: Queryable, step: OnceKey): Promise<LockRow> {
  const { scope, key, fingerprint, keepMs } = step;
  for (let race = 0; race < racesMax; race += 1) {
    await tx.query(onceSteps.insertKey, [scope, key, fingerprint, randomUUID(), keepMs]);
    const [row] = await tx.query<LockRow>(onceSteps.lockKey, [scope, key, fingerprint]);
    if (row !== undefined) return row;
  }
  throw new Error(`lost ${racesMax} races for one key in a row`);
}

async function perform<Result>(
  tx: Queryable,
  { scope, key, fingerprint, keepMs }: OnceKey,
  effect: (tx: Queryable) => Promise<Result>,
): Promise<Decided<Result>> {
  const keep = (state: 'completed' | 'failed', result: string) =>
    tx.query(onceSteps.keepResult, [scope, key, fingerprint, state, result, keepMs]);
  await tx.query('SAVEPOINT effect');
  try {
    const text = encodeResult(await effect(tx));
    await keep('completed', text);
    return { outcome: 'done', result: JSON.parse(text) as Result };
  } catch (error) {
    if (!(error instanceof EffectFailedError)) throw error;
    await tx.query('ROLLBACK TO SAVEPOINT effect');
    await keep('failed', encodeFailure(error));
    return { outcome: 'failed', error };
  }
}
