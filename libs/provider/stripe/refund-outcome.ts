import type Stripe from 'stripe';
import type { IntentInQuestion, RefundAtProvider } from '../provider.ts';
import { isAbout } from './is-about.ts';
import { unknownBecause } from './sort-error.ts';

/** What of a refund is looked at; an answer off the wire may have any of it missing. */
type Seen = Partial<
  Pick<
    Stripe.Refund,
    'id' | 'status' | 'amount' | 'currency' | 'metadata' | 'payment_intent' | 'failure_reason'
  >
>;

/** How a refund stands, by its own state (docs.stripe.com/api/refunds/object). */
export function refundOutcome(refund: Seen, asked: IntentInQuestion): RefundAtProvider {
  const { id: refundId, status } = refund;
  const same = refund.payment_intent === asked.intentId && isAbout(refund, asked);
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
