import type { Failure } from '@triplock/payments';
import Stripe from 'stripe';
import type { Unknown } from '../provider.ts';

/** What an error of the official client says about the call that met it. */
export type SortedError =
  /** The provider refused this very request: asking again will never help. */
  | { outcome: 'refused'; failure: Failure }
  /** The intent is not in a state that allows it: its state has the answer. */
  | { outcome: 'unexpected-state' }
  | Unknown;

/**
 * Sorts an error by docs.stripe.com/error-low-level and docs.stripe.com/api/errors. Only what is
 * certain is a refusal: a wrong API key, a lost answer or a stored 500 says nothing about the
 * payment.
 */
export function sortError(error: unknown): SortedError {
  const { errors } = Stripe;
  if (error instanceof errors.StripeCardError) return refused(error);
  if (error instanceof errors.StripeIdempotencyError) return unknownBecause(error, { kept: true });
  if (error instanceof errors.StripeInvalidRequestError) {
    if (error.code === 'payment_intent_unexpected_state') return { outcome: 'unexpected-state' };
    // Somebody else is in the middle of the same call, or of another one on the same object.
    if (error.statusCode === 409 || error.code === 'lock_timeout') return unknownBecause(error);
    // An intent of ours that is not there is a mistake of the set-up, such as another account's key.
    if (error.code === 'resource_missing' && error.param === 'intent') return unknownBecause(error);
    return refused(error);
  }
  if (error instanceof errors.StripeAPIError) {
    return unknownBecause(error, { kept: (error.statusCode ?? 0) >= 500 });
  }
  return unknownBecause(error);
}

function refused(error: InstanceType<typeof Stripe.errors.StripeError>): SortedError {
  const code = error.decline_code ?? error.code ?? error.type;
  return { outcome: 'refused', failure: { code, message: error.message } };
}

/** The unknown outcome of a call that an error ended. */
export function unknownBecause(error: unknown, { kept } = { kept: false }): Unknown {
  const retryAfterMs = retryAfterOf(error);
  return {
    outcome: 'unknown',
    error,
    kept,
    sent: true,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/** RFC 9110, section 10.2.3; Stripe sends seconds. */
function retryAfterOf(error: unknown): number | undefined {
  if (!(error instanceof Stripe.errors.StripeError)) return undefined;
  const seconds = Number(error.headers?.['retry-after']);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : undefined;
}
