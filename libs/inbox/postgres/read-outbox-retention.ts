import { databaseErrorKind, loadSql, type Queryable } from '@triplock/postgres';

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
 *
 * @throws when the database has no such function, or the role no right to it: asking again would
 * not help, and an inbox that never knows would never forget.
 */
export async function readOutboxRetention(database: Queryable): Promise<OutboxRetention> {
  try {
    const [row] = await database.query<Row>(readOutboxRetentionSql);
    if (row === undefined) return { outcome: 'unknown', why: 'no dispatcher has run yet' };
    return { outcome: 'known', retentionMs: row.kept_ms, oldestMs: row.oldest_ms };
  } catch (error) {
    if (databaseErrorKind(error) === 'bug') throw unreadable(error as Error);
    return { outcome: 'unknown', why: error instanceof Error ? error.message : String(error) };
  }
}

function unreadable(cause: Error): Error {
  return new Error(
    `for how long the outbox keeps events cannot be read (${cause.message}): grant the role EXECUTE on ledger.outbox_kept in one of the service's migrations`,
    { cause },
  );
}
