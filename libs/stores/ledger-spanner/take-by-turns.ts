import { loadSql } from '@triplock/postgres';
import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { BucketLease, OutboxEvent } from '@triplock/ledger';
import { outboxEventFrom, type TakenRow } from './taken-row.ts';

const takeSql = loadSql(import.meta.url, 'take.sql');

/** What is parked is little; each payment's first. */
const parkedSql = `
  SELECT parked_payment AS payment, UNIX_MICROS(MIN(created_at)) AS micros
  FROM outbox@{FORCE_INDEX=outbox_parked, spanner_emulator.disable_query_null_filtered_index_check=true}
  WHERE parked_payment IS NOT NULL
  GROUP BY parked_payment`;

const notBehindSql = `NOT EXISTS (
  SELECT 1 FROM UNNEST(@payments) AS payment WITH OFFSET AS nth_parked
  WHERE payment = payment_id AND @since[OFFSET(nth_parked)] < UNIX_MICROS(created_at)
)`;

/** Enough that a few busy buckets among idle ones need no turn per row. */
const perBucketMin = 16;

/** Takes events however many wait, and passes by what waits behind a parked one. */
export async function takeByTurns(
  database: SpannerDatabase,
  { leases, rowsMax }: { leases: readonly BucketLease[]; rowsMax: number },
): Promise<OutboxEvent[]> {
  const parked = await database.query<{ payment: string; micros: bigint }>(parkedSql);
  const sql = takeSql.replace('$NOT_BEHIND', parked.length === 0 ? 'TRUE' : notBehindSql);
  const rows = await database.query<TakenRow>(sql, {
    buckets: leases.map((lease) => lease.bucket),
    epochs: leases.map((lease) => lease.epoch),
    perBucket: Math.max(perBucketMin, Math.ceil(rowsMax / leases.length)),
    limit: rowsMax,
    payments: parked.map(({ payment }) => payment),
    since: parked.map(({ micros }) => micros),
  });
  return rows.map(outboxEventFrom);
}
