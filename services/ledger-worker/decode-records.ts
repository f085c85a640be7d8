import { decodeAccepted } from '@triplock/contracts';
import type { Posting, RefundPosting } from '@triplock/ledger';
import type { ReceivedRecord, Refusal } from '@triplock/transport';
import { postingOf, type Accepted } from './book-transfer.ts';
import { followRecord, type Followed } from './follow-record.ts';

/** A record that says a payment, as it is to be posted. */
export type PaymentRecord = { record: ReceivedRecord } & Followed<Posting>;

/** A record that says a refund, as it is to be posted. */
export type RefundRecord = { record: ReceivedRecord } & Followed<RefundPosting>;

/** A record that can never be posted, and why. */
export type DeadRecord = { record: ReceivedRecord; refusal: Refusal };

/** Records by what they say; each kind keeps its order. */
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
      case 'payment':
        sorted.payments.push(followPayment(record, { ...decoded, settledAt }));
        break;
      case 'refund': {
        const { refund, traceparent } = decoded;
        const posting = { refund, traceparent, settledAt };
        sorted.refunds.push({ record, ...followRecord(record, refund, posting) });
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

function followPayment(record: ReceivedRecord, accepted: Accepted): PaymentRecord {
  return { record, ...followRecord(record, accepted.payment, postingOf(accepted)) };
}
