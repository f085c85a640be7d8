import type { Money } from '@triplock/payments';
import Stripe from 'stripe';
import type {
  ConfirmRequest,
  CreateOutcome,
  IntentOutcome,
  IntentRequest,
  Provider,
} from '../provider.ts';
import { idempotencyKeyOf } from './idempotency-key.ts';
import { intentOutcome } from './intent-outcome.ts';
import { openStripeRefunds } from './open-stripe-refunds.ts';
import { sortError, unknownBecause } from './sort-error.ts';

/** Where Stripe answers, and for how long it is waited for. */
export type StripeOptions = {
  apiKey: string;
  /** Another place that speaks Stripe's API, such as the simulator; Stripe itself when absent. */
  apiUrl?: string;
  /** Until a call is given up, its outcome being unknown then; milliseconds. */
  timeoutMs: number;
};

/**
 * Stripe by its official package. The package's own retries are off: whoever calls knows what may
 * be asked again. It still sends once more after a reset connection, under the same idempotency key.
 */
export function openStripe(options: StripeOptions): Provider {
  const stripe = new Stripe(options.apiKey, {
    ...addressOf(options.apiUrl),
    timeout: options.timeoutMs,
    maxNetworkRetries: 0,
    telemetry: false,
  });
  return {
    createIntent: (request) => createIntent(stripe, request),
    confirmIntent: (request) => confirmIntent(stripe, request),
    readIntent: (intentId, money) => readIntent(stripe, { intentId, money }),
    // Refused when it is no longer to be cancelled: it is final then, or being decided.
    cancelIntent: (intentId, money) =>
      actOrRead(stripe, { intentId, money }, () =>
        stripe.paymentIntents.cancel(intentId, { cancellation_reason: 'abandoned' }),
      ),
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
    if (typeof intent.id === 'string') return { outcome: 'created', intentId: intent.id };
    return unknownBecause(new Error('an intent came without an id'));
  } catch (error) {
    const sorted = sortError(error);
    return sorted.outcome === 'unexpected-state' ? unknownBecause(error) : sorted;
  }
}

function confirmIntent(stripe: Stripe, request: ConfirmRequest): Promise<IntentOutcome> {
  const { intentId } = request;
  const idempotencyKey = idempotencyKeyOf(request, 'confirm');
  // The method was named when the intent was made. Named here too, it would be charged again after
  // a decline.
  return actOrRead(stripe, request, () =>
    stripe.paymentIntents.confirm(intentId, {}, { idempotencyKey }),
  );
}

type Asked = { intentId: string; money: Money };

function readIntent(stripe: Stripe, asked: Asked): Promise<IntentOutcome> {
  return actOrRead(stripe, asked, () => stripe.paymentIntents.retrieve(asked.intentId));
}

/** What a call made of an intent; when its state forbade the call, that state. */
async function actOrRead(
  stripe: Stripe,
  asked: Asked,
  call: () => Promise<Stripe.PaymentIntent>,
): Promise<IntentOutcome> {
  try {
    return intentOutcome(await call(), asked);
  } catch (error) {
    const sorted = sortError(error);
    switch (sorted.outcome) {
      case 'unexpected-state':
        return readIntent(stripe, asked);
      case 'refused':
        return { outcome: 'declined', failure: sorted.failure };
      case 'unknown':
        return sorted;
    }
  }
}

function addressOf(apiUrl: string | undefined): Stripe.StripeConfig {
  if (apiUrl === undefined) return {};
  const { hostname, port, protocol } = new URL(apiUrl);
  return {
    host: hostname,
    ...(port === '' ? {} : { port }),
    protocol: protocol === 'http:' ? 'http' : 'https',
  };
}
