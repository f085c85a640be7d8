import type { Lookup } from './spanner/lookup.ts';
import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { Outbox } from '@triplock/ledger';

/** Beyond this a backlog shows by its age. */
const countedMax = 10_000;

const pending =
  'outbox@{FORCE_INDEX=outbox_pending, spanner_emulator.disable_query_null_filtered_index_check=true}';
const pendingSql = `
  SELECT
    (SELECT COUNT(*) FROM (
      SELECT 1 FROM ${pending} WHERE pending_bucket >= 0 LIMIT @countedMax
    )) AS waiting,
    TIMESTAMP_DIFF(CURRENT_TIMESTAMP(), MIN(head.created_at), MILLISECOND) AS oldest_ms
  FROM UNNEST(GENERATE_ARRAY(0, 63)) AS wanted_bucket,
    UNNEST(ARRAY(
      SELECT AS STRUCT created_at FROM ${pending}
      WHERE pending_bucket = wanted_bucket ORDER BY created_at LIMIT 1
    )) AS head`;

/** So many are read one by one before a statement is asked to count more. */
const lookedAtMax = 256;

const few: Lookup = {
  ...{ table: 'outbox', index: 'outbox_pending', columns: ['created_at'], keys: 'all' },
  limit: lookedAtMax,
};

/**
 * Measures what waits by `Outbox.pending`'s contract. A backlog makes this no slower: the count
 * ends, and the oldest is looked up per bucket, at the head of an index.
 */
export async function measurePending(
  database: SpannerDatabase,
): Promise<Awaited<ReturnType<Outbox['pending']>>> {
  const waiting = await database.read<{ created_at: Date }>(few);
  if (waiting.length < lookedAtMax)
    return { rows: waiting.length, oldestSeconds: oldestOf(waiting) };
  type Row = { waiting: bigint; oldest_ms: bigint | null };
  const [row] = await database.query<Row>(pendingSql, { countedMax });
  return { rows: Number(row!.waiting), oldestSeconds: Number(row!.oldest_ms ?? 0n) / 1_000 };
}

/** By this process's clock, which may be behind. */
function oldestOf(waiting: readonly { created_at: Date }[]): number {
  const ages = waiting.map(({ created_at }) => (Date.now() - +created_at) / 1_000);
  return Math.max(0, ...ages);
}
