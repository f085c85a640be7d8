import { bucketCount } from '@triplock/contracts';
import { bucketOf, type EventId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { Posting } from '../ledger.ts';
import { keyConflictEvent } from './event-row.ts';
import { blamingInput } from './unpostable.ts';

const recordKeyConflictSql = loadSql(import.meta.url, 'record-key-conflict.sql');

/** Tells of a losing request by `Ledger.recordKeyConflict`'s contract. */
export async function recordKeyConflict(database: Database, posting: Posting): Promise<EventId> {
  const { payment } = posting;
  const event = keyConflictEvent(posting);
  await blamingInput(() =>
    database.query(recordKeyConflictSql, [
      event.eventId,
      payment.txnId,
      payment.partnerId,
      bucketOf(payment.txnId, bucketCount),
      event.payload,
      event.traceparent,
    ]),
  );
  return event.eventId;
}
