import { isTxnId, type PartnerId } from '@triplock/payments';
import type Stripe from 'stripe';
import { ProviderError } from '../provider-error.ts';
import type { BookKind, BookRow, BookStatus } from '../provider-books.ts';

/** What Stripe lists. */
export type Listed = Stripe.PaymentIntent | Stripe.Charge | Stripe.Refund;

/**
 * An object of Stripe's as a row of the books.
 *
 * @throws ProviderError for a status that is not known here: what it means for money nobody can say.
 */
export function bookRowOf(listed: Listed): BookRow {
  const { id, amount, currency, created, metadata } = listed;
  const kind = kindOf(listed);
  const status = statuses[kind][listed.status ?? ''];
  if (status === undefined) {
    const code = `${listed.status} of ${id}`;
    throw new ProviderError({
      ...{ type: 'unknown_status', code, statusCode: undefined, requestId: undefined },
    });
  }
  const intentId = intentOf(listed);
  const txnId = metadata?.['txn_id'];
  return {
    ...{ kind, id, status, amount: BigInt(amount) },
    currency: currency.toUpperCase(),
    createdAt: new Date(created * 1_000),
    ...(intentId === undefined ? {} : { intentId }),
    ...(txnId !== undefined && isTxnId(txnId)
      ? { txnId, partnerId: (metadata?.['partner_id'] ?? '') as PartnerId }
      : {}),
  };
}

function kindOf({ object }: Listed): BookKind {
  return object === 'payment_intent' ? 'intent' : object;
}

function intentOf(listed: Listed): string | undefined {
  if (listed.object === 'payment_intent') return listed.id;
  const { payment_intent: intent } = listed;
  return typeof intent === 'string' ? intent : intent?.id;
}

/**
 * docs.stripe.com/payments/paymentintents/lifecycle, /api/charges/object and /api/refunds/object. A
 * declined intent goes back to `requires_payment_method`; whether money moved its charges tell.
 */
const statuses: Readonly<Record<BookKind, Readonly<Record<string, BookStatus>>>> = {
  intent: {
    requires_payment_method: 'unconfirmed',
    requires_confirmation: 'unconfirmed',
    requires_action: 'pending',
    processing: 'pending',
    requires_capture: 'pending',
    succeeded: 'succeeded',
    canceled: 'failed',
  },
  charge: { pending: 'pending', succeeded: 'succeeded', failed: 'failed' },
  refund: {
    pending: 'pending',
    requires_action: 'pending',
    succeeded: 'succeeded',
    failed: 'failed',
    canceled: 'failed',
  },
};
