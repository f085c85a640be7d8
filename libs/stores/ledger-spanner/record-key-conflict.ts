import {
  keyConflictEventOf,
  refundKeyConflictEventOf,
  type PaymentEvent,
} from '@triplock/contracts';
import type { EventId } from '@triplock/payments';
import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { Posting } from '@triplock/ledger';
import type { RefundPosting } from '@triplock/ledger';
import { blamingInput } from './unpostable.ts';
import { insertEvent } from './write-rows.ts';

/** Tells of a losing payment by `Ledger.recordKeyConflict`'s contract. */
export function recordKeyConflict(database: SpannerDatabase, posting: Posting): Promise<EventId> {
  return record(database, keyConflictEventOf(posting.payment), posting.traceparent);
}

/** Tells of a losing refund by `Refunds.recordKeyConflict`'s contract. */
export function recordRefundConflict(
  database: SpannerDatabase,
  posting: RefundPosting,
): Promise<EventId> {
  return record(database, refundKeyConflictEventOf(posting.refund), posting.traceparent);
}

async function record(
  database: SpannerDatabase,
  event: PaymentEvent,
  traceparent: string,
): Promise<EventId> {
  const sql = 'SELECT event_id FROM outbox WHERE event_id = @id';
  await blamingInput(() =>
    database.transaction(async (tx) => {
      const told = await tx.query(sql, { id: event.event_id });
      if (told.length === 0) tx.write(insertEvent(event, traceparent));
    }),
  );
  return event.event_id;
}
