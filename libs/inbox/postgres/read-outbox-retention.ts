import { loadSql, type Queryable } from '@triplock/postgres';

const readOutboxRetentionSql = loadSql(import.meta.url, 'read-outbox-retention.sql');

/**
 * For how long a published event can be republished, or why that is not known: as it is set, and
 * the age of the oldest event that is there (0: there is none). A shorter setting takes a while to
 * come true.
 */
export type OutboxRetention =
  { outcome: 'known'; retentionMs: number; oldestMs: number } | { outcome: 'unknown'; why: string };

type Row = { kept_ms: number; oldest_ms: number };

/**
 * What the dispatchers keep, from where they say so; they may change it while this service runs.
 */
export async function readOutboxRetention(database: Queryable): Promise<OutboxRetention> {
  try {
    const [row] = await database.query<Row>(readOutboxRetentionSql);
    if (row === undefined) return { outcome: 'unknown', why: 'no dispatcher has run yet' };
    return { outcome: 'known', retentionMs: row.kept_ms, oldestMs: row.oldest_ms };
  } catch (error) {
    return { outcome: 'unknown', why: error instanceof Error ? error.message : String(error) };
  }
}
