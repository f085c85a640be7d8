import { isTxnId, type PartnerId } from '@triplock/payments';
import type Stripe from 'stripe';
import { ProviderError } from '../provider-error.ts';
import type { BookKind, BookRow, BookStatus } from '../provider-books.ts';

/** What Stripe lists. */
export type Listed = Stripe.PaymentIntent | Stripe.Charge | Stripe.Refund;

/**
 * An object of Stripe's as a row of the books.
 *
 * @throws ProviderError for a status of an object of ours that is not known here: what it means for
 * money nobody can say.
 */
export function bookRowOf(listed: Listed): BookRow {
  const { id, amount, currency, created, metadata } = listed;
  const kind = kindOf(listed);
  const intentId = intentOf(listed);
  const txnId = metadata?.['txn_id'];
  const isOurs = txnId !== undefined && isTxnId(txnId);
  const status = statuses[kind][String(listed.status)] ?? 'unknown';
  if (status === 'unknown' && isOurs) {
    const code = `${listed.status} of ${id}`;
    throw new ProviderError({
      ...{ type: 'unknown_status', code, statusCode: undefined, requestId: undefined },
    });
  }
  return {
    ...{ kind, id, status, amount: BigInt(amount) },
    currency: currency.toUpperCase(),
    createdAt: new Date(created * 1_000),
    ...(intentId === undefined ? {} : { intentId }),
    ...(isOurs ? { txnId, partnerId: (metadata?.['partner_id'] ?? '') as PartnerId } : {}),
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
    // Stripe's own type allows it, and nothing says that it ended.
    null: 'pending',
    pending: 'pending',
    requires_action: 'pending',
    succeeded: 'succeeded',
    failed: 'failed',
    canceled: 'failed',
  },
};
