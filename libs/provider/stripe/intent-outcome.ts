import type { Failure } from '@triplock/payments';
import type Stripe from 'stripe';
import type { IntentInQuestion, IntentOutcome } from '../provider.ts';
import { isAbout } from './is-about.ts';
import { unknownBecause } from './sort-error.ts';

/** What of an intent is looked at; an answer off the wire may have any of it missing. */
type Seen = Partial<
  Pick<
    Stripe.PaymentIntent,
    | 'id'
    | 'status'
    | 'amount'
    | 'currency'
    | 'metadata'
    | 'latest_charge'
    | 'last_payment_error'
    | 'cancellation_reason'
  >
>;

/**
 * How a charge stands, by the intent's own state
 * (docs.stripe.com/payments/paymentintents/lifecycle). An answer that is not about this intent,
 * this payment and this money, or that has no known state, is unknown.
 */
export function intentOutcome(intent: Seen, asked: IntentInQuestion): IntentOutcome {
  const same = intent.id === asked.intentId && isAbout(intent, asked);
  if (!same) return nonsense(`the provider answered with another intent than ${asked.intentId}`);
  switch (intent.status) {
    case 'succeeded':
      return succeeded(intent);
    case 'requires_confirmation':
      return { outcome: 'unconfirmed' };
    case 'requires_action':
      return { outcome: 'waiting', waitsFor: 'customer' };
    case 'processing':
      return { outcome: 'waiting', waitsFor: 'provider' };
    case 'requires_payment_method':
      return declined(intent);
    case 'canceled':
      return { outcome: 'declined', failure: cancelled(intent) };
    case 'requires_capture':
    case undefined:
    default:
      return nonsense(`the provider says ${intent.status} of ${asked.intentId}`);
  }
}

function succeeded({ id, latest_charge: charge }: Seen): IntentOutcome {
  const chargeId = typeof charge === 'string' ? charge : charge?.id;
  if (chargeId === undefined) return nonsense(`intent ${id} succeeded without a charge`);
  return { outcome: 'succeeded', chargeId };
}

/** Abandoned is what we cancel when a customer never came to authenticate. */
function cancelled({ cancellation_reason: reason }: Seen): Failure {
  const message = 'The payment was not completed in time and was cancelled.';
  if (reason === 'abandoned') return { code: 'authentication_required', message };
  return { code: 'payment_canceled', message: 'The payment was cancelled at the provider.' };
}

/** A decline takes the method off the intent, so that nothing confirms it by accident again. */
function declined({ last_payment_error: error }: Seen): IntentOutcome {
  const code = error?.decline_code || error?.code || 'card_declined';
  const message = error?.message ?? 'The card was declined.';
  return { outcome: 'declined', failure: { code, message } };
}

function nonsense(message: string): IntentOutcome {
  return unknownBecause(new Error(message));
}
