import { loadSql, type Database } from '@triplock/postgres';
import type { Outbox } from '../outbox.ts';

const pendingSql = loadSql(import.meta.url, 'pending.sql');
const readInOrderSql = `
  SELECT set_config(name, 'off', true)
  FROM unnest('{enable_bitmapscan,enable_seqscan,enable_sort}'::text[]) AS name`;

/** Beyond this a backlog shows by its age. */
const countedMax = 10_000;

/** Measures what waits by `Outbox.pending`'s contract, at a cost that does not grow with it. */
export function measurePending(database: Database): ReturnType<Outbox['pending']> {
  return database.transaction(async (tx) => {
    await tx.query(readInOrderSql);
    const [row] = await tx.query<{ rows: number; oldest_seconds: number }>(pendingSql, [
      countedMax,
    ]);
    return { rows: row!.rows, oldestSeconds: row!.oldest_seconds };
  });
}
