import type { EventId, TxnId } from '@triplock/payments';
import { loadSql } from '@triplock/postgres';
import type { SpannerDatabase } from '@triplock/spanner';
import type { BucketLease, OutboxRow } from '../outbox.ts';

const takeSql = loadSql(import.meta.url, 'take.sql');

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
  const rows = await database.query<TakenRow>(takeSql, {
    buckets: leases.map((lease) => lease.bucket),
    epochs: leases.map((lease) => lease.epoch),
    perBucket: Math.max(perBucketMin, Math.ceil(rowsMax / leases.length)),
    limit: rowsMax,
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
