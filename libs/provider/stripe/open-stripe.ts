import type { Failure } from '@triplock/payments';
import type Stripe from 'stripe';
import type {
  ConfirmRequest,
  CreateOutcome,
  IntentInQuestion,
  IntentOutcome,
  IntentRequest,
  Provider,
} from '../provider.ts';
import { idempotencyKeyOf } from './idempotency-key.ts';
import { intentOutcome } from './intent-outcome.ts';
import { isAbout } from './is-about.ts';
import { openClient, type StripeOptions } from './open-client.ts';
import { openStripeRefunds } from './open-stripe-refunds.ts';
import { sortError, unknownBecause } from './sort-error.ts';

/** Stripe by its official package. */
export function openStripe(options: StripeOptions): Provider {
  const stripe = openClient(options);
  return {
    createIntent: (request) => createIntent(stripe, request),
    confirmIntent: (request) => confirmIntent(stripe, request),
    readIntent: (asked) => readIntent(stripe, asked),
    cancelIntent: (asked) => cancelIntent(stripe, asked, { cancellation_reason: 'abandoned' }),
    ...openStripeRefunds(stripe),
  };
}

async function createIntent(stripe: Stripe, request: IntentRequest): Promise<CreateOutcome> {
  const { money, paymentMethod, txnId, partnerId } = request;
  try {
    const intent = await stripe.paymentIntents.create(
      {
        amount: Number(money.amount),
        currency: money.currency.toLowerCase(),
        payment_method: paymentMethod,
        // No method that sends a browser elsewhere: nobody of ours would come back.
        automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
        metadata: { txn_id: txnId, partner_id: partnerId },
      },
      { idempotencyKey: idempotencyKeyOf(request, 'create') },
    );
    const { id: intentId } = intent as Partial<Stripe.PaymentIntent>;
    if (intentId !== undefined && isAbout(intent, request)) return { outcome: 'created', intentId };
    return unknownBecause(new Error('the provider answered with no intent, or another one'));
  } catch (error) {
    const sorted = sortError(error);
    return sorted.outcome === 'unexpected-state' ? unknownBecause(error) : sorted;
  }
}

async function confirmIntent(stripe: Stripe, request: ConfirmRequest): Promise<IntentOutcome> {
  const { intentId } = request;
  const idempotencyKey = idempotencyKeyOf(request, 'confirm');
  // The method was named when the intent was made. Named here too, it would be charged again after
  // a decline.
  const confirmed = await actOrRead(stripe, request, () =>
    stripe.paymentIntents.confirm(intentId, {}, { idempotencyKey }),
  );
  if (confirmed.outcome !== 'refused') return confirmed;
  // The refusal is the request's end and not the intent's: as long as it could be confirmed,
  // somebody who sleeps may do so yet.
  const ended = await endIntent(stripe, request);
  return ended.outcome === 'declined' ? { ...ended, failure: confirmed.failure } : ended;
}

async function endIntent(stripe: Stripe, asked: IntentInQuestion): Promise<IntentOutcome> {
  const seen = await readIntent(stripe, asked);
  return seen.outcome === 'unconfirmed' ? cancelIntent(stripe, asked) : seen;
}

/** Where the intent is no longer to be cancelled, it is final or being decided. */
async function cancelIntent(
  stripe: Stripe,
  asked: IntentInQuestion,
  reason: Stripe.PaymentIntentCancelParams = {},
): Promise<IntentOutcome> {
  return certain(
    await actOrRead(stripe, asked, () => stripe.paymentIntents.cancel(asked.intentId, reason)),
  );
}

type Refused = { outcome: 'refused'; failure: Failure };

async function readIntent(stripe: Stripe, asked: IntentInQuestion): Promise<IntentOutcome> {
  return certain(
    await actOrRead(stripe, asked, () => stripe.paymentIntents.retrieve(asked.intentId)),
  );
}

/** Reading and cancelling can be refused by mistake only, which says nothing about the charge. */
function certain(outcome: IntentOutcome | Refused): IntentOutcome {
  if (outcome.outcome !== 'refused') return outcome;
  return unknownBecause(new Error(`the provider refused: ${outcome.failure.code}`));
}

/** What a call made of an intent; when its state forbade the call, that state. */
async function actOrRead(
  stripe: Stripe,
  asked: IntentInQuestion,
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
