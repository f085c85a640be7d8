import { loadSql, type Queryable } from '@triplock/postgres';

const readOutboxRetentionSql = loadSql(import.meta.url, 'sql/read-outbox-retention.sql');

/** For how long a published event can be republished, or why that is not known. */
export type OutboxRetention =
  { outcome: 'known'; retentionMs: number } | { outcome: 'unknown'; why: string };

/** What the dispatchers keep, from where they say so; they may change it while this service runs. */
export async function readOutboxRetention(database: Queryable): Promise<OutboxRetention> {
  try {
    const [row] = await database.query<{ kept_ms: number }>(readOutboxRetentionSql);
    if (row === undefined) return { outcome: 'unknown', why: 'no dispatcher has run yet' };
    return { outcome: 'known', retentionMs: row.kept_ms };
  } catch (error) {
    return { outcome: 'unknown', why: error instanceof Error ? error.message : String(error) };
  }
}
