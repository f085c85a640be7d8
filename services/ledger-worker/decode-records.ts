import { decodePaymentAccepted } from '@triplock/contracts';
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
    const decoded = decodePaymentAccepted(record);
    if (decoded.outcome === 'payment') {
      payments.push({ record, posting: postingOf({ ...decoded, settledAt }) });
    } else {
      const { reason, detail } = decoded;
      refused.push({ record, refusal: { reason, detail } });
    }
  }
  return { payments, refused };
}
