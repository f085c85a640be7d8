import { decodeAccepted } from '@triplock/contracts';
import type { Posting, RefundPosting } from '@triplock/ledger';
import type { AcceptedPayment, AcceptedRefund, TxnId } from '@triplock/payments';
import { isTracing, openSpan, untracedSpan, type OpenSpan } from '@triplock/runtime';
import type { ReceivedRecord, Refusal } from '@triplock/transport';
import { postingOf } from './posting.ts';

/** A record of a payment, as it is to be posted, and the span in which it is taken to its end. */
export type PaymentRecord = { record: ReceivedRecord; posting: Posting; span: OpenSpan };

/** A record of a refund, as it is to be posted, and the span in which it is taken to its end. */
export type RefundRecord = { record: ReceivedRecord; posting: RefundPosting; span: OpenSpan };

/** A record that can never be posted, and why. */
export type DeadRecord = { record: ReceivedRecord; refusal: Refusal };

/**
 * What became of a record: its transaction is final in the ledger, or pending there and looked
 * after by the resolver, or it is a dead letter.
 */
export type RecordOutcome =
  | { outcome: FinalOutcome | PendingOutcome; txnId: TxnId }
  | { outcome: 'refused' | 'key-conflict' | 'unpostable'; dead: DeadRecord };

/** The transaction is final: by this record, or by one before it (`already-recorded`). */
export type FinalOutcome =
  'posted' | 'resumed' | 'charged' | 'declined' | 'refunded' | 'refund-failed' | 'already-recorded';

/** The row is pending, durable and looked after; a refund also waits for its payment. */
export type PendingOutcome = 'handed-over' | 'refund-waiting';

/** Records by their kind; each kind keeps its order. */
export type DecodedRecords = {
  payments: PaymentRecord[];
  refunds: RefundRecord[];
  refused: DeadRecord[];
};

/** Sorts records into payments, refunds, and those that are neither. */
export function decodeRecords(records: readonly ReceivedRecord[]): DecodedRecords {
  const settledAt = new Date();
  const sorted: DecodedRecords = { payments: [], refunds: [], refused: [] };
  for (const record of records) {
    const decoded = decodeAccepted(record);
    switch (decoded.outcome) {
      case 'payment': {
        const posting = postingOf({ ...decoded, settledAt });
        sorted.payments.push({ record, ...openRecordSpan(record, decoded.payment, posting) });
        break;
      }
      case 'refund': {
        const { refund, traceparent } = decoded;
        const posting = { refund, traceparent, settledAt };
        sorted.refunds.push({ record, ...openRecordSpan(record, refund, posting) });
        break;
      }
      case 'refused': {
        const { reason, detail } = decoded;
        sorted.refused.push({ record, refusal: { reason, detail } });
        break;
      }
      default:
        decoded satisfies never;
    }
  }
  return sorted;
}

/**
 * Opens the span of one record, in the trace that the record came with. What is stored with the
 * transaction and its event continues it, whoever goes on with them, and whenever.
 */
function openRecordSpan<AnyPosting extends { traceparent: string }>(
  { topic, partition, offset }: ReceivedRecord,
  { txnId, partnerId }: AcceptedPayment | AcceptedRefund,
  posting: AnyPosting,
): { posting: AnyPosting; span: OpenSpan } {
  if (!isTracing()) return { posting, span: untracedSpan };
  const span = openSpan({
    name: `process ${topic}`,
    kind: 'consumer',
    parent: posting.traceparent,
    attributes: {
      'messaging.system': 'kafka',
      'messaging.operation.type': 'process',
      'messaging.operation.name': 'process',
      'messaging.destination.name': topic,
      'messaging.destination.partition.id': String(partition),
      'messaging.kafka.offset': Number(offset),
      'triplock.txn_id': txnId,
      'triplock.partner_id': partnerId,
    },
  });
  return { posting: { ...posting, traceparent: span.carried(posting.traceparent) }, span };
}
