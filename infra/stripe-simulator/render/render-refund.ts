import type { Stripe } from 'stripe';
import type { RefundRecord } from '../records/records.ts';
import { seconds } from './seconds.ts';

/** https://docs.stripe.com/api/refunds/object, each field that the package's types require. */
export function renderRefund(record: RefundRecord): Stripe.Refund {
  return {
    id: record.id,
    object: 'refund',
    amount: record.amount,
    balance_transaction: null,
    charge: record.charge,
    created: seconds(record.created),
    currency: record.currency,
    customer: null,
    customer_account: null,
    ...(record.failureReason !== null && { failure_reason: record.failureReason }),
    metadata: { ...record.metadata },
    payment_intent: record.paymentIntent,
    payment_method: null,
    reason: record.reason,
    receipt_number: null,
    source_transfer_reversal: null,
    status: record.status,
    transfer_reversal: null,
  };
}
