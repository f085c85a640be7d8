import type { Money } from '@triplock/payments';
import type Stripe from 'stripe';
import type { RefundAtProvider } from '../provider.ts';
import { unknownBecause } from './sort-error.ts';

/** What of a refund is looked at; an answer off the wire may have any of it missing. */
type Seen = Partial<
  Pick<Stripe.Refund, 'id' | 'status' | 'amount' | 'currency' | 'failure_reason'>
>;

/** How a refund stands, by its own state (docs.stripe.com/api/refunds/object). */
export function refundOutcome(refund: Seen, money: Money): RefundAtProvider {
  const { id: refundId, status, amount, currency } = refund;
  const same = amount === Number(money.amount) && currency === money.currency.toLowerCase();
  if (refundId === undefined || !same) return nonsense('the provider answered with another refund');
  switch (status) {
    case 'succeeded':
      return { outcome: 'succeeded', refundId };
    case 'pending':
    case 'requires_action':
      return { outcome: 'waiting', refundId };
    case 'failed':
    case 'canceled': {
      const code = refund.failure_reason ?? `refund_${status}`;
      const message = 'The provider could not give the money back.';
      return { outcome: 'refused', failure: { code, message }, refundId };
    }
    case null:
    case undefined:
    default:
      return nonsense(`the provider says ${status} of ${refundId}`);
  }
}

function nonsense(message: string): RefundAtProvider {
  return unknownBecause(new Error(message));
}
