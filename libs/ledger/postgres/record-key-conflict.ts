import {
  bucketCount,
  encodePaymentEvent,
  keyConflictEventOf,
  refundKeyConflictEventOf,
  type PaymentEvent,
} from '@triplock/contracts';
import { bucketOf, type EventId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { Posting } from '../ledger.ts';
import type { RefundPosting } from '../refunds.ts';
import { blamingInput } from './unpostable.ts';

const recordKeyConflictSql = loadSql(import.meta.url, 'record-key-conflict.sql');

/** Tells of a losing payment by `Ledger.recordKeyConflict`'s contract. */
export function recordKeyConflict(database: Database, posting: Posting): Promise<EventId> {
  return record(database, keyConflictEventOf(posting.payment), posting.traceparent);
}

/** Tells of a losing refund by `Refunds.recordKeyConflict`'s contract. */
export function recordRefundConflict(database: Database, posting: RefundPosting): Promise<EventId> {
  return record(database, refundKeyConflictEventOf(posting.refund), posting.traceparent);
}

async function record(
  database: Database,
  event: PaymentEvent,
  traceparent: string,
): Promise<EventId> {
  await blamingInput(() =>
    database.query(recordKeyConflictSql, [
      event.event_id,
      event.txn_id,
      event.partner_id,
      bucketOf(event.payment_id, bucketCount),
      encodePaymentEvent(event).payload,
      traceparent,
      event.payment_id,
    ]),
  );
  return event.event_id;
}
