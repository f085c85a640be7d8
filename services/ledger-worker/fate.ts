import type { EventId, TxnId } from '@triplock/payments';
import type { ReceivedRecord } from '@triplock/transport';
import type { ChargeFate } from './charge-desk.ts';
import type { DeadRecord } from './decode-records.ts';
import type { RefundFate } from './refund-desk.ts';

/**
 * What became of a record: its transaction is final in the ledger, or pending there and looked
 * after by the resolver, or it is a dead letter.
 */
export type Fate =
  | { outcome: 'posted' | 'resumed' | 'refund-waiting' | ChargeFate | RefundFate; txnId: TxnId }
  | { outcome: 'refused' | 'key-conflict' | 'unpostable'; dead: DeadRecord };

/** The record's key stands for another request; an event reports it to the partner. */
export function keyConflict(record: ReceivedRecord, eventId: EventId): Fate {
  const detail = `the key stands for another request, which event ${eventId} reports`;
  return { outcome: 'key-conflict', dead: { record, refusal: { reason: 'key_conflict', detail } } };
}

/** No ledger will ever store it. */
export function unpostable(record: ReceivedRecord, detail: string): Fate {
  return { outcome: 'unpostable', dead: { record, refusal: { reason: 'unpostable', detail } } };
}
