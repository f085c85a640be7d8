import type { EventId, TxnId } from '@triplock/payments';
import type { OutboxEvent } from '@triplock/ledger';

/** A row of the outbox as it is taken, with the time of its commit in microseconds. */
export type TakenRow = {
  created_at: bigint;
  event_id: EventId;
  event_type: string;
  txn_id: TxnId;
  payment_id: TxnId;
  bucket: bigint;
  sequence: bigint | null;
  payload: string;
  traceparent: string;
};

const columns: Record<keyof TakenRow, true> = {
  created_at: true,
  event_id: true,
  event_type: true,
  txn_id: true,
  payment_id: true,
  bucket: true,
  sequence: true,
  payload: true,
  traceparent: true,
};

/** The columns of such a row. */
export const takenColumns = Object.keys(columns);

/** The event that a row holds. */
export function outboxEventFrom(row: TakenRow): OutboxEvent {
  return {
    orderId: row.created_at,
    id: row.event_id,
    type: row.event_type,
    subject: row.txn_id,
    orderingKey: row.payment_id,
    bucket: Number(row.bucket),
    ...(row.sequence !== null && { sequence: Number(row.sequence) }),
    payload: row.payload,
    traceparent: row.traceparent,
  };
}
