import type { Failure } from '@triplock/payments';
import type Stripe from 'stripe';
import {
  failureOf,
  isObjectId,
  type CaptureOutcome,
  type CaptureRequest,
  type ChargeOutcome,
  type ConfirmRequest,
  type CreateOutcome,
  type CustomerAction,
  type HoldTimes,
  type IntentOutcome,
  type IntentQuery,
  type IntentRequest,
  type IntentsTransaction,
  type Provider,
} from '@triplock/provider';
import { idempotencyKeyOf, isAbout, openClient, type StripeOptions } from './client.ts';
import { fromStripe, toCharge, toStripe } from './currencies.ts';
import {
  isReplayed,
  sortError,
  sortErrorOfCharging,
  sortErrorOfMaking,
  unknownBecause,
} from './errors.ts';
import { openIntentFinder } from './forgotten-intents.ts';
import { listDisputes } from './disputes.ts';
import { stripePackage } from './package.ts';
import { txnIdOf } from './webhooks.ts';
import { createRefund, findRefund, listRefunds } from './refunds.ts';

/** Stripe by its official package. */
export function openStripe(options: StripeOptions): Provider {
  const stripe = openClient(options);
  return {
    charge: (request) => charge(stripe, request),
    transactionOf: (intentId) => transactionOf(stripe, intentId),
    createIntent: (request) => createIntent(stripe, request),
    findIntent: openIntentFinder(stripe),
    confirmIntent: (request) => confirmIntent(stripe, request),
    readIntent: (asked) => readIntent(stripe, asked),
    captureIntent: (request) => captureIntent(stripe, request),
    cancelIntent: ({ because = 'abandoned', ...asked }) =>
      cancelIntent(stripe, asked, { cancellation_reason: because }),
    refund: (request) => createRefund(stripe, request),
    findRefund: (request) => findRefund(stripe, request),
    listRefunds: (intent) => listRefunds(stripe, intent),
    listDisputes: (query) => listDisputes(stripe, query),
  };
}

/**
 * docs.stripe.com/api/payment_intents/create#create_payment_intent-confirm: the intent is made and
 * confirmed. A refusal of that is an error that carries it.
 */
async function charge(stripe: Stripe, request: ChargeRequest): Promise<ChargeOutcome> {
  const { returnUrl } = request;
  const asked = toCharge(request.money);
  if (asked.outcome === 'inexpressible') return { outcome: 'refused', failure: asked.failure };
  const parameters = {
    ...parametersOf(request, asked),
    confirm: true,
    ...(returnUrl === undefined ? {} : { return_url: returnUrl }),
    ...withHold(request),
  };
  const idempotencyKey = idempotencyKeyOf(request, 'charge');
  try {
    const intent = await stripe.paymentIntents.create(parameters, { idempotencyKey });
    return madeBy(intent, request, isReplayed(intent.lastResponse?.headers));
  } catch (error) {
    const refused = refusedIntent(error);
    if (refused === undefined) return sortErrorOfCharging(error);
    return madeBy(refused.intent, request, refused.isReplayed);
  }
}

/** The intent that was made and whose confirmation was refused: why, it may not say itself. */
function refusedIntent(error: unknown): { intent: Seen; isReplayed: boolean } | undefined {
  const { StripeCardError, StripeInvalidRequestError } = stripePackage().errors;
  const isRefusal = error instanceof StripeCardError || error instanceof StripeInvalidRequestError;
  if (!isRefusal || typeof error.payment_intent !== 'object') return undefined;
  const { code, decline_code, message, payment_intent: made } = error;
  const why = { code, decline_code, message } as Stripe.PaymentIntent.LastPaymentError;
  const intent = { ...made, last_payment_error: made?.last_payment_error ?? why };
  return { intent, isReplayed: isReplayed(error.headers) };
}

async function transactionOf(stripe: Stripe, intentId: string): Promise<IntentsTransaction> {
  try {
    const intent: Seen = await stripe.paymentIntents.retrieve(intentId);
    if (intent.id !== intentId) return noIntent();
    const txnId = txnIdOf(intent);
    return txnId === undefined ? { outcome: 'none' } : { outcome: 'ours', txnId };
  } catch (error) {
    const { StripeInvalidRequestError } = stripePackage().errors;
    const isGone = error instanceof StripeInvalidRequestError && error.code === 'resource_missing';
    return isGone ? { outcome: 'none' } : unknownBecause(error);
  }
}

type ChargeRequest = Parameters<NonNullable<Provider['charge']>>[0];

/**
 * What is kept under a key is the answer of its moment: since then a customer may have come, or
 * somebody else may have ended the intent.
 */
function madeBy(intent: Seen, request: ChargeRequest, replayed: boolean): ChargeOutcome {
  const { id: intentId } = intent;
  if (!isObjectId(intentId) || !isAbout(intent, request)) return noIntent();
  const seen = intentOutcome(intent, { ...request, intentId });
  if (replayed || seen.outcome === 'unknown') return { outcome: 'made', intentId };
  return { outcome: 'made', intentId, seen };
}

async function createIntent(stripe: Stripe, request: IntentRequest): Promise<CreateOutcome> {
  const asked = toCharge(request.money);
  if (asked.outcome === 'inexpressible') return { outcome: 'refused', failure: asked.failure };
  try {
    const idempotencyKey = idempotencyKeyOf(request, request.under ?? 'create');
    const intent = await stripe.paymentIntents.create(parametersOf(request, asked), {
      idempotencyKey,
    });
    const { id: intentId } = intent as Partial<Stripe.PaymentIntent>;
    if (isObjectId(intentId) && isAbout(intent, request)) return { outcome: 'created', intentId };
    return noIntent();
  } catch (error) {
    return request.under === 'charge' ? sortErrorOfCharging(error) : sortErrorOfMaking(error);
  }
}

const noIntent = () =>
  unknownBecause(new Error('the provider answered with no intent, or another one'));

function parametersOf(
  { paymentMethod, returnUrl, captureMethod, txnId, partnerId }: ChargeRequest,
  { amount, currency }: { amount: number; currency: string },
) {
  return {
    amount,
    currency,
    payment_method: paymentMethod,
    // Without a way back, no method that sends a browser elsewhere.
    automatic_payment_methods: {
      enabled: true,
      allow_redirects: returnUrl === undefined ? ('never' as const) : ('always' as const),
    },
    ...(captureMethod === undefined ? {} : { capture_method: captureMethod }),
    metadata: { txn_id: txnId, partner_id: partnerId },
  };
}

async function confirmIntent(stripe: Stripe, request: ConfirmRequest): Promise<IntentOutcome> {
  const { intentId, returnUrl } = request;
  const wayBack = returnUrl === undefined ? {} : { return_url: returnUrl };
  const parameters = { ...wayBack, ...withHold(request) };
  const idempotencyKey = idempotencyKeyOf(request, 'confirm');
  // The method was named when the intent was made. Named here too, it would be charged again after
  // a decline.
  const confirmed = await actOrRead(stripe, request, () =>
    stripe.paymentIntents.confirm(intentId, parameters, { idempotencyKey }),
  );
  if (confirmed.outcome !== 'refused') return confirmed;
  // The refusal is the request's end and not the intent's: as long as it could be confirmed,
  // somebody who sleeps may do so yet.
  const ended = await endIntent(stripe, request);
  return ended.outcome === 'declined' ? { ...ended, failure: confirmed.failure } : ended;
}

async function endIntent(stripe: Stripe, asked: IntentQuery): Promise<IntentOutcome> {
  const seen = await readIntent(stripe, asked);
  return seen.outcome === 'unconfirmed' ? cancelIntent(stripe, asked) : seen;
}

/**
 * What an intent's state forbids it answers with that state: it was captured before, or let go, by
 * us or by Stripe (docs.stripe.com/payments/place-a-hold-on-a-payment-method).
 */
async function captureIntent(stripe: Stripe, request: CaptureRequest): Promise<CaptureOutcome> {
  const { amount, money } = request;
  const asked = toStripe({ ...money, amount });
  const captured: IntentOutcome | Refused =
    asked.outcome === 'inexpressible'
      ? { outcome: 'refused', failure: asked.failure }
      : await askToCapture(stripe, request, asked.amount);
  if (captured.outcome !== 'refused') return captured;
  // Refused or not, the intent knows whether it is still to be captured.
  const seen = await readIntent(stripe, request);
  return seen.outcome === 'authorized' ? captured : seen;
}

function askToCapture(
  stripe: Stripe,
  request: CaptureRequest,
  amountToCapture: number,
): Promise<IntentOutcome | Refused> {
  const idempotencyKey = idempotencyKeyOf(request, 'capture');
  const parameters = { amount_to_capture: amountToCapture };
  return actOrRead(stripe, request, () =>
    stripe.paymentIntents.capture(request.intentId, parameters, { idempotencyKey }),
  );
}

/** Where the intent is no longer to be cancelled, it is final or being decided. */
async function cancelIntent(
  stripe: Stripe,
  asked: IntentQuery,
  reason: Stripe.PaymentIntentCancelParams = {},
): Promise<IntentOutcome> {
  return certain(
    await actOrRead(stripe, asked, () => stripe.paymentIntents.cancel(asked.intentId, reason)),
  );
}

type Refused = { outcome: 'refused'; failure: Failure };

async function readIntent(stripe: Stripe, asked: IntentQuery): Promise<IntentOutcome> {
  const retrieve = () => stripe.paymentIntents.retrieve(asked.intentId, withHold(asked));
  return certain(await actOrRead(stripe, asked, retrieve));
}

/** The times of a hold are on its charge, which a key needs the right to read. */
function withHold({ captureMethod }: Pick<IntentQuery, 'captureMethod'>): { expand?: string[] } {
  return captureMethod === undefined ? {} : { expand: ['latest_charge'] };
}

/** Reading and cancelling can be refused by mistake only, which says nothing about the charge. */
function certain(outcome: IntentOutcome | Refused): IntentOutcome {
  if (outcome.outcome !== 'refused') return outcome;
  const error = new Error(`the provider refused: ${outcome.failure.code}`);
  return { ...unknownBecause(error), untilMended: true };
}

/** What a call made of an intent; when its state forbade the call, that state. */
async function actOrRead(
  stripe: Stripe,
  asked: IntentQuery,
  call: () => Promise<Stripe.PaymentIntent>,
): Promise<IntentOutcome | Refused> {
  try {
    return intentOutcome(await call(), asked);
  } catch (error) {
    const sorted = sortError(error);
    switch (sorted.outcome) {
      case 'unexpected-state':
        return readIntent(stripe, asked);
      case 'refused':
      case 'unknown':
        return sorted;
      default:
        return sorted satisfies never;
    }
  }
}

/** What of an intent is looked at; an answer off the wire may have any of it missing. */
type Seen = Partial<
  Pick<
    Stripe.PaymentIntent,
    | 'id'
    | 'status'
    | 'amount'
    | 'amount_received'
    | 'currency'
    | 'metadata'
    | 'latest_charge'
    | 'last_payment_error'
    | 'cancellation_reason'
    | 'client_secret'
    | 'next_action'
  >
>;

/**
 * The state of a charge, by the intent's own status
 * (docs.stripe.com/payments/paymentintents/lifecycle). An answer that is not about this intent,
 * this payment and this money, or that has no known state, is unknown.
 */
function intentOutcome(intent: Seen, asked: IntentQuery): IntentOutcome {
  const same = intent.id === asked.intentId && isAbout(intent, asked);
  if (!same) return nonsense(`the provider answered with another intent than ${asked.intentId}`);
  switch (intent.status) {
    case 'succeeded':
      return succeeded(intent, asked);
    case 'requires_confirmation':
      return { outcome: 'unconfirmed' };
    case 'requires_action':
      return { outcome: 'waiting', waitsFor: 'customer', ...actionOf(intent) };
    case 'processing':
      return { outcome: 'waiting', waitsFor: 'provider' };
    case 'requires_payment_method':
      return reopened(intent);
    case 'canceled':
      return { outcome: 'declined', failure: cancelled(intent), ...holdBefore(intent) };
    case 'requires_capture':
      return { outcome: 'authorized', ...holdOf(intent) };
    case undefined:
    default:
      return nonsense(`the provider reports ${intent.status} for ${asked.intentId}`);
  }
}

/**
 * docs.stripe.com/payments/place-a-hold-on-a-payment-method: the charge is made when the money is
 * held, and says by when it has to be captured.
 */
function holdOf({ latest_charge: charge }: Seen): HoldTimes {
  if (typeof charge !== 'object' || charge === null) return {};
  const { created, payment_method_details: details } = charge as Partial<Stripe.Charge>;
  const [heldSince, heldUntil] = [timeOf(created), timeOf(details?.card?.capture_before)];
  return { ...(heldSince && { heldSince }), ...(heldUntil && { heldUntil }) };
}

/** No ledger holds a time beyond the year 9999. */
const secondsMax = 253_402_300_799;

function timeOf(seconds: unknown): Date | undefined {
  const isTime = Number.isSafeInteger(seconds) && (seconds as number) > 0;
  return isTime ? new Date(Math.min(seconds as number, secondsMax) * 1_000) : undefined;
}

function succeeded(intent: Seen, { money }: IntentQuery): IntentOutcome {
  const { id, amount = 0, amount_received: received = amount, latest_charge: charge } = intent;
  const chargeId = typeof charge === 'string' ? charge : charge?.id;
  if (!isObjectId(chargeId)) return nonsense(`intent ${id} succeeded without a charge`);
  const isPart = Number.isSafeInteger(received) && received > 0 && received <= amount;
  const part = isPart && fromStripe({ amount: received, currency: money.currency });
  if (!part || !part.exact) return nonsense(`intent ${id} received ${received} of ${amount}`);
  return { outcome: 'succeeded', chargeId, received: part.amount };
}

/** Nothing, of an answer that makes no sense: the customer has to act, and nobody can say how. */
function actionOf({ next_action: next, client_secret: clientSecret }: Seen): {
  action?: CustomerAction;
} {
  const { type, redirect_to_url: redirect } = next ?? {};
  if (typeof type !== 'string' || typeof clientSecret !== 'string') return {};
  const url = redirect?.url;
  return { action: { type, clientSecret, ...(typeof url === 'string' ? { url } : {}) } };
}

/**
 * Whether what was cancelled had held money: only its charge says so. One that nobody confirmed, or
 * whose every try was refused, has none that succeeded.
 */
function holdBefore({ latest_charge: charge }: Seen): { wasHeld?: true } {
  if (typeof charge !== 'object' || charge === null) return {};
  const { status } = charge as Partial<Stripe.Charge>;
  return status === 'succeeded' ? { wasHeld: true } : {};
}

/**
 * Abandoned is what we cancel when a customer never came to authenticate, or when the last try was
 * refused, which the intent still says; `automatic` and `expired` are what Stripe lets go by
 * itself, once an authorisation has expired.
 */
function cancelled({ cancellation_reason: reason, last_payment_error: error }: Seen): Failure {
  if (reason === 'automatic' || reason === 'expired') {
    const message = 'The authorisation expired before it was captured.';
    return { code: 'authorization_expired', message };
  }
  const message = 'The payment was not completed in time and was cancelled.';
  if (reason === 'abandoned') {
    return error ? refusalOf(error) : { code: 'authentication_required', message };
  }
  return { code: 'payment_canceled', message: 'The payment was cancelled at the provider.' };
}

/**
 * A decline takes the method off the intent, so that nothing confirms it by accident again; with
 * another method whoever has its secret may do so
 * (docs.stripe.com/payments/paymentintents/lifecycle).
 */
function reopened({ last_payment_error: error }: Seen): IntentOutcome {
  return { outcome: 'reopened', failure: refusalOf(error) };
}

function refusalOf(error: Seen['last_payment_error']): Failure {
  const code = error?.decline_code || error?.code || 'card_declined';
  return failureOf(code, error?.message ?? 'The card was declined.');
}

function nonsense(message: string): IntentOutcome {
  return unknownBecause(new Error(message));
}
