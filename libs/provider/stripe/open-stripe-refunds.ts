import type Stripe from 'stripe';
import type { Provider, RefundAtProvider, RefundRequest } from '../provider.ts';
import { idempotencyKeyOf } from './idempotency-key.ts';
import { refundOutcome } from './refund-outcome.ts';
import { sortRefundError, unknownBecause } from './sort-error.ts';

/** A payment can have any number of partial refunds; this many are looked through. */
const listedMax = 10_000;

/** The part of the provider that gives money back. */
export function openStripeRefunds(stripe: Stripe): Pick<Provider, 'refund' | 'findRefund'> {
  return {
    refund: (request) => createRefund(stripe, request),
    findRefund: (request) => findRefund(stripe, request),
  };
}

async function createRefund(stripe: Stripe, request: RefundRequest): Promise<RefundAtProvider> {
  const { intentId, money, txnId, partnerId } = request;
  try {
    const refund = await stripe.refunds.create(
      {
        payment_intent: intentId,
        amount: Number(money.amount),
        metadata: { txn_id: txnId, partner_id: partnerId },
      },
      { idempotencyKey: idempotencyKeyOf(request, 'refund') },
    );
    return refundOutcome(refund, request);
  } catch (error) {
    return sortRefundError(error);
  }
}

/**
 * Lists, because lists are consistent; search lags behind by a minute, and by more in an outage
 * (docs.stripe.com/search#data-freshness).
 */
async function findRefund(
  stripe: Stripe,
  request: RefundRequest,
): Promise<RefundAtProvider | { outcome: 'none' }> {
  try {
    const refunds = await stripe.refunds
      .list({ payment_intent: request.intentId, limit: 100 })
      .autoPagingToArray({ limit: listedMax });
    const mine = refunds.find(({ metadata }) => metadata?.['txn_id'] === request.txnId);
    if (mine !== undefined) return refundOutcome(mine, request);
    if (refunds.length < listedMax) return { outcome: 'none' };
    return unknownBecause(
      new Error(`intent ${request.intentId} has too many refunds to look through`),
    );
  } catch (error) {
    return unknownBecause(error);
  }
}
