import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Stripe } from 'stripe';
import { aSimulator } from './test/simulator.ts';

// The same calls to the simulator and to Stripe's test mode, compared by what a caller goes by. It
// needs a key of a Stripe account's own and the network, so it runs only where a key is given.

const key = process.env['STRIPE_API_KEY'];
const skip = key?.startsWith('sk_test_')
  ? false
  : 'STRIPE_API_KEY is not set to a test key: the simulator is not compared with Stripe itself';

/** What of an answer must be the same on both sides; ids, times and words differ. */
type Seen = Readonly<Record<string, unknown>>;

const card = { amount: 1_250, currency: 'eur', payment_method_types: ['card'] };
const never = { enabled: true, allow_redirects: 'never' } as const;

test('the simulator answers as Stripe does', { skip }, async (t) => {
  const simulated = await aSimulator(t);
  const real = new Stripe(key ?? '', { maxNetworkRetries: 2, telemetry: false });
  for (const [name, call] of Object.entries(calls)) {
    await t.test(name, async () => {
      const [ours, theirs] = await Promise.all([call(simulated.stripe), call(real)]);
      assert.deepEqual(ours, theirs);
    });
  }
});

const calls: Readonly<Record<string, (stripe: Stripe) => Promise<Seen[]>>> = {
  'create, confirm, confirm again': async (stripe) => {
    const { id, ...created } = await stripe.paymentIntents.create({
      ...card,
      payment_method: 'pm_card_visa',
    });
    const confirmed = await stripe.paymentIntents.confirm(id, { expand: ['latest_charge'] });
    const again = await refusalOf(stripe.paymentIntents.confirm(id));
    return [stateOf(created), stateOf(confirmed), chargeOf(confirmed), again];
  },
  'each declining method': async (stripe) => {
    const names = [
      ...['chargeDeclined', 'chargeDeclinedInsufficientFunds', 'chargeDeclinedExpiredCard'],
      ...['chargeDeclinedIncorrectCvc', 'chargeDeclinedProcessingError'],
    ];
    return Promise.all(
      names.map(async (name) => {
        const order = { ...card, confirm: true, payment_method: `pm_card_${name}` };
        return refusalOf(stripe.paymentIntents.create(order));
      }),
    );
  },
  authentication: async (stripe) => {
    const order = { ...card, confirm: true, payment_method: 'pm_card_authenticationRequired' };
    const asked = await stripe.paymentIntents.create(order);
    const unattended = await refusalOf(
      stripe.paymentIntents.create({ ...order, off_session: true }),
    );
    return [stateOf(asked), { action: asked.next_action?.type }, unattended];
  },
  'canceling, and what cannot be canceled or confirmed': async (stripe) => {
    const open = await stripe.paymentIntents.create(card);
    const canceled = await stripe.paymentIntents.cancel(open.id, {
      cancellation_reason: 'duplicate',
    });
    const confirm = await refusalOf(
      stripe.paymentIntents.confirm(open.id, { payment_method: 'pm_card_visa' }),
    );
    return [stateOf(canceled), confirm, await refusalOf(stripe.paymentIntents.cancel(open.id))];
  },
  'refunds up to the payment': async (stripe) => {
    const order = { ...card, confirm: true, payment_method: 'pm_card_visa' };
    const { id: payment_intent } = await stripe.paymentIntents.create(order);
    const part = await stripe.refunds.create({ payment_intent, amount: 250 });
    const tooMuch = await refusalOf(stripe.refunds.create({ payment_intent, amount: 1_001 }));
    const rest = await stripe.refunds.create({ payment_intent });
    const none = await refusalOf(stripe.refunds.create({ payment_intent }));
    const seen = ({ amount, status, currency }: Stripe.Refund) => ({ amount, status, currency });
    return [seen(part), tooMuch, seen(rest), none];
  },
  'idempotency: replay, other parameters, another endpoint': async (stripe) => {
    const idempotencyKey = randomUUID();
    const first = await stripe.paymentIntents.create(card, { idempotencyKey });
    const again = await stripe.paymentIntents.create(card, { idempotencyKey });
    const params = stripe.paymentIntents.create({ ...card, amount: 999 }, { idempotencyKey });
    const endpoint = stripe.paymentIntents.cancel(first.id, {}, { idempotencyKey });
    return [
      { same: first.id === again.id, replayed: again.lastResponse.headers['idempotent-replayed'] },
      await refusalOf(params),
      await refusalOf(endpoint),
    ];
  },
  'idempotency: a decline is kept, an invalid request is not': async (stripe) => {
    const idempotencyKey = randomUUID();
    const order = { ...card, confirm: true, payment_method: 'pm_card_chargeDeclined' };
    const decline = () => refusalOf(stripe.paymentIntents.create(order, { idempotencyKey }));
    const other = randomUUID();
    const invalid = await refusalOf(
      stripe.paymentIntents.create({ ...card, amount: 1 }, { idempotencyKey: other }),
    );
    const valid = await stripe.paymentIntents.create(card, { idempotencyKey: other });
    return [await decline(), await decline(), invalid, stateOf(valid)];
  },
  'invalid requests': async (stripe) => {
    const wrong = [
      { ...card, amount: 1 },
      { ...card, amount: 100_000_000 },
      { ...card, currency: 'zzz' },
      { ...card, payment_method: 'pm_unknown' },
      { ...card, colour: 'red' },
      { amount: 1_250, currency: 'eur', confirm: true, payment_method: 'pm_card_visa' },
    ];
    const calls = wrong.map((order) => refusalOf(stripe.paymentIntents.create(order)));
    return Promise.all([...calls, refusalOf(stripe.paymentIntents.retrieve('pi_unknown'))]);
  },
  'no redirects': async (stripe) => {
    const order = { amount: 1_250, currency: 'eur', confirm: true, payment_method: 'pm_card_visa' };
    return [
      stateOf(await stripe.paymentIntents.create({ ...order, automatic_payment_methods: never })),
    ];
  },
};

function stateOf(intent: Omit<Stripe.PaymentIntent, 'id'>): Seen {
  const { amount, amount_received, currency, status, livemode, cancellation_reason } = intent;
  const paid = intent.latest_charge !== null;
  return { amount, amount_received, currency, status, livemode, cancellation_reason, paid };
}

function chargeOf({ latest_charge }: Stripe.PaymentIntent): Seen {
  const { amount, currency, status, paid, refunded, captured } = latest_charge as Stripe.Charge;
  return { amount, currency, status, paid, refunded, captured };
}

async function refusalOf(call: Promise<unknown>): Promise<Seen> {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeError)) throw error;
    const { type, code, decline_code, statusCode, param } = error;
    return { type, code, decline_code, statusCode, param, intent: error.payment_intent?.status };
  }
  return { refused: false };
}
