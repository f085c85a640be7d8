import { decodeAccepted } from '@triplock/contracts';
import type { ReceivedRecord, Refusal } from '@triplock/transport';
import { postingOf } from './book-transfer.ts';
import type { Posting } from '@triplock/ledger';

/** A record that says a payment, as it is to be posted. */
export type PaymentRecord = { record: ReceivedRecord; posting: Posting };

/** A record that can never be posted, and why. */
export type DeadRecord = { record: ReceivedRecord; refusal: Refusal };

/** Sorts records into payments and those that are none; both keep their order. */
export function decodeRecords(records: readonly ReceivedRecord[]): {
  payments: PaymentRecord[];
  refused: DeadRecord[];
} {
  const settledAt = new Date();
  const payments: PaymentRecord[] = [];
  const refused: DeadRecord[] = [];
  for (const record of records) {
    const decoded = decodeAccepted(record);
    if (decoded.outcome === 'payment') {
      payments.push({ record, posting: postingOf({ ...decoded, settledAt }) });
    } else if (decoded.outcome === 'refused') {
      const { reason, detail } = decoded;
      refused.push({ record, refusal: { reason, detail } });
    } else {
      // No gateway of this version accepts a refund.
      const detail = 'a refund, which this version cannot post';
      refused.push({ record, refusal: { reason: 'invalid_record', detail } });
    }
  }
  return { payments, refused };
}
