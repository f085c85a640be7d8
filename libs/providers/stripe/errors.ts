import type { Failure } from '@triplock/payments';
import type Stripe from 'stripe';
import { failureOf, ProviderError, type TooMany, type Unknown } from '@triplock/provider';
import { stripePackage } from './package.ts';

/** What an error of the official client says about the call that met it. */
export type SortedError =
  /** The provider refused this very request: asking again will never help. */
  | { outcome: 'refused'; failure: Failure }
  /** The intent is not in a state that allows it: its state has the answer. */
  | { outcome: 'unexpected-state' }
  | Unknown;

/** What the partner chose; a refusal that names another parameter is a mistake of ours. */
const partnersOwn = ['payment_method', 'amount', 'amount_to_capture', 'currency', 'return_url'];

/**
 * What is wrong with the account, the key or this program, and with no payment: every other one is
 * refused as well until a person has mended it (docs.stripe.com/error-codes).
 */
const ofTheAccount = [
  'account_invalid',
  'api_key_expired',
  'balance_insufficient',
  'livemode_mismatch',
  'not_allowed_on_standard_account',
  'parameters_exclusive',
  'platform_account_required',
  'platform_api_key_expired',
  'progressive_onboarding_limit_exceeded',
  'secret_key_required',
  'testmode_charges_only',
  'tls_version_unsupported',
];

/** Why a charge cannot be given back (docs.stripe.com/error-codes). */
const notRefundable = [
  'charge_already_refunded',
  'charge_disputed',
  'charge_not_refundable',
  'refund_disputed_payment',
];

/**
 * Sorts an error by docs.stripe.com/error-low-level and docs.stripe.com/api/errors. Only what is
 * certain, and about this request, is a refusal: by a 400 Stripe says that it did nothing, and the
 * same request would be refused for ever. A wrong API key or URL (401, 403, 404), an account that
 * is not set up, a parameter that Stripe no longer knows, a lost answer or a 500 say nothing about
 * the payment: all but the last two are `untilMended`.
 */
export function sortError(error: unknown): SortedError {
  const { errors } = stripePackage();
  if (error instanceof errors.StripeCardError) return refused(error);
  if (error instanceof errors.StripeInvalidRequestError) {
    if (error.code === 'payment_intent_unexpected_state') return { outcome: 'unexpected-state' };
    if (isAboutRequest(error) || notRefundable.includes(error.code ?? '')) return refused(error);
  }
  return unknownBecause(error);
}

type StripeError = InstanceType<typeof Stripe.errors.StripeError>;

/** Whether it names what the partner chose, or names nothing and is not the account's trouble. */
function isAboutRequest({ statusCode, param, code }: StripeError): boolean {
  if (param) return partnersOwn.includes(param);
  return statusCode === 400 && !ofTheAccount.includes(code ?? '');
}

function refused(error: StripeError): SortedError {
  // `rawType` is Stripe's own name; `type` is what the client calls its class.
  const code = error.decline_code || error.code || error.rawType || 'invalid_request_error';
  return { outcome: 'refused', failure: failureOf(code, error.message) };
}

/**
 * Sorts an error of asking for a refund. That more is asked for than is left of the charge, because
 * others gave some of it back, Stripe reports without a code, by the parameter alone.
 */
export function sortRefundError(
  error: unknown,
): Exclude<SortedError, { outcome: 'unexpected-state' }> {
  const { StripeInvalidRequestError } = stripePackage().errors;
  if (error instanceof StripeInvalidRequestError && error.param === 'amount' && !error.code) {
    const failure = failureOf('amount_exceeds_refundable', error.message);
    return { outcome: 'refused', failure };
  }
  return sortErrorOfMaking(error);
}

/** Sorts an error of asking for something new, which no state of anything can forbid. */
export function sortErrorOfMaking(
  error: unknown,
): Exclude<SortedError, { outcome: 'unexpected-state' }> {
  const sorted = sortError(error);
  return sorted.outcome === 'unexpected-state' ? unknownBecause(error) : sorted;
}

/**
 * Sorts an error of asking under the key of a charge in one call: whoever else has that key by
 * other parameters may be about to charge, so its call is as good as any that is under way.
 */
export function sortErrorOfCharging(
  error: unknown,
): ReturnType<typeof sortErrorOfMaking> & { keyTaken?: true } {
  const sorted = sortErrorOfMaking(error);
  const { StripeIdempotencyError } = stripePackage().errors;
  if (sorted.outcome !== 'unknown' || !(error instanceof StripeIdempotencyError)) return sorted;
  return { ...sorted, kept: false, ...(error.statusCode === 400 && { keyTaken: true }) };
}

/** The unknown outcome of a call that an error ended. */
export function unknownBecause(error: unknown): Unknown {
  if (!(error instanceof stripePackage().errors.StripeError)) {
    return { outcome: 'unknown', error, kept: false, sent: true };
  }
  const { type, code, statusCode, requestId } = error;
  const retryAfterMs = retryAfterOf(error);
  const tooMany = tooManyBy(error);
  return {
    outcome: 'unknown',
    // The client's own error carries the idempotency key, the intent and its secret.
    error: new ProviderError({ type, code, statusCode, requestId }),
    kept: isKept(error),
    sent: true,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(tooMany === undefined ? {} : { tooMany }),
    ...(isUntilMended(error) ? { untilMended: true } : {}),
  };
}

/** The definite answers that no payment can help (docs.stripe.com/api/errors). */
function isUntilMended(error: StripeError): boolean {
  const { statusCode } = error;
  if (statusCode === 401 || statusCode === 403) return true;
  const { StripeInvalidRequestError } = stripePackage().errors;
  return error instanceof StripeInvalidRequestError && (statusCode === 400 || statusCode === 404);
}

/**
 * Only a replay proves that an answer is kept under its key: a gateway's 503 or 504 may be about a
 * call that is still running. A key of other parameters is as good as kept.
 */
function isKept(error: StripeError): boolean {
  if (error instanceof stripePackage().errors.StripeIdempotencyError) return true;
  return isReplayed(error.headers);
}

/** Whether an answer is what was kept under its key (docs.stripe.com/api/idempotent_requests). */
export function isReplayed(headers: Readonly<Record<string, string>> | undefined): boolean {
  return headers?.['idempotent-replayed'] === 'true';
}

/**
 * docs.stripe.com/rate-limits. A lock that was not had in time, and a limit of one object, are 429s
 * too: the same call may come again, and no other one has to wait.
 */
function tooManyBy({ statusCode, code, headers }: StripeError): TooMany | undefined {
  if (statusCode !== 429 || code === 'lock_timeout') return undefined;
  const limits: Readonly<Record<string, TooMany>> = {
    'global-rate': { of: 'all', by: 'rate' },
    'global-concurrency': { of: 'all', by: 'concurrency' },
    'endpoint-rate': { of: 'each', by: 'rate' },
    'endpoint-concurrency': { of: 'each', by: 'concurrency' },
  };
  const reason = headers?.['stripe-rate-limited-reason'];
  // A proxy's own limit names none.
  return reason === undefined ? limits['global-rate'] : limits[reason];
}

/** RFC 9110, section 10.2.3; Stripe sends seconds. */
function retryAfterOf({ headers }: { headers?: Record<string, string> }): number | undefined {
  const seconds = Number(headers?.['retry-after']);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : undefined;
}
