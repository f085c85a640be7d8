import type { EventId, TxnId } from '@triplock/payments';
import { loadSql } from '@triplock/postgres';
import type { SpannerDatabase } from '@triplock/spanner';
import type { BucketLease, OutboxRow } from '../outbox.ts';

const takeSql = loadSql(import.meta.url, 'take.sql');

const anyWaitsSql = `
  SELECT 1 AS waits
  FROM outbox@{FORCE_INDEX=outbox_pending, spanner_emulator.disable_query_null_filtered_index_check=true}
  WHERE pending_bucket IN UNNEST(@buckets) LIMIT 1`;

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

type TakenRow = {
  order_id: bigint;
  event_id: EventId;
  event_type: string;
  txn_id: TxnId;
  payment_id: TxnId;
  bucket: bigint;
  sequence: bigint | null;
  payload: string;
  traceparent: string;
};

/** Reads events by `Outbox.take`'s contract. An order id is the commit's time, in microseconds. */
export async function takeEvents(
  database: SpannerDatabase,
  { leases, rowsMax }: { leases: readonly BucketLease[]; rowsMax: number },
): Promise<OutboxRow[]> {
  if (leases.length === 0) return [];
  const buckets = leases.map((lease) => lease.bucket);
  // Asked many times a second, mostly for nothing: one look at an index instead of one per bucket.
  if ((await database.query(anyWaitsSql, { buckets })).length === 0) return [];
  const parked = await database.query<{ payment: string; micros: bigint }>(parkedSql);
  const sql = takeSql.replace('$NOT_BEHIND', parked.length === 0 ? 'TRUE' : notBehindSql);
  const rows = await database.query<TakenRow>(sql, {
    buckets,
    epochs: leases.map((lease) => lease.epoch),
    perBucket: Math.max(perBucketMin, Math.ceil(rowsMax / leases.length)),
    limit: rowsMax,
    payments: parked.map(({ payment }) => payment),
    since: parked.map(({ micros }) => micros),
  });
  return rows.map((row) => ({
    orderId: row.order_id,
    eventId: row.event_id,
    eventType: row.event_type,
    txnId: row.txn_id,
    paymentId: row.payment_id,
    bucket: Number(row.bucket),
    sequence: row.sequence === null ? null : Number(row.sequence),
    payload: row.payload,
    traceparent: row.traceparent,
  }));
}
