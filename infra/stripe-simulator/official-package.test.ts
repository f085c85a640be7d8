import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Stripe } from 'stripe';
import { aSimulator, stripeAt } from './test/simulator.ts';
import { apiVersion } from './wire/errors.ts';
import { randomUUID } from 'node:crypto';

// The unmodified package is the judge here: what it cannot read, or takes for another error class,
// is wrong. Error classes: https://docs.stripe.com/error-handling

const order = { amount: 1_250, currency: 'eur', payment_method_types: ['card'] };

test('the simulator speaks the version that the pinned package speaks', () => {
  const root = createRequire(import.meta.url).resolve('stripe');
  const source = readFileSync(new URL('../esm/apiVersion.js', `file://${root}`), 'utf8');
  assert.match(source, new RegExp(`'${apiVersion.replaceAll('.', '\\.')}'`));
});

test('the package takes a payment from creation to refund', async (t) => {
  const { stripe } = await aSimulator(t);
  const created = await stripe.paymentIntents.create({
    ...order,
    payment_method: 'pm_card_visa',
    metadata: { txn_id: 'a[b]&c=ü', 'second key': '' },
  });
  assert.equal(created.status, 'requires_confirmation');
  assert.deepEqual(created.metadata, { txn_id: 'a[b]&c=ü' });
  assert.equal(created.lastResponse.apiVersion, apiVersion);
  assert.match(created.lastResponse.requestId, /^req_\w{14}$/);

  const confirmed = await stripe.paymentIntents.confirm(created.id, {
    expand: ['latest_charge', 'payment_method'],
  });
  assert.equal(confirmed.status, 'succeeded');
  assert.equal(confirmed.amount_received, 1_250);
  assert.partialDeepStrictEqual(confirmed.latest_charge, {
    object: 'charge',
    amount: 1_250,
    paid: true,
    status: 'succeeded',
    metadata: { txn_id: 'a[b]&c=ü' },
  });
  assert.partialDeepStrictEqual(confirmed.payment_method, { card: { last4: '4242' } });

  const refund = await stripe.refunds.create({ payment_intent: created.id, amount: 250 });
  assert.partialDeepStrictEqual(refund, { amount: 250, currency: 'eur', status: 'succeeded' });
  const retrieved = await stripe.refunds.retrieve(refund.id, { expand: ['charge'] });
  assert.partialDeepStrictEqual(retrieved.charge, { amount_refunded: 250, refunded: false });
  const { data } = await stripe.refunds.list({ payment_intent: created.id });
  assert.deepEqual(
    data.map(({ id }) => id),
    [refund.id],
  );
});

test('the package pages through everything by itself', async (t) => {
  const { stripe } = await aSimulator(t);
  const made: string[] = [];
  for (let count = 0; count < 25; count += 1) {
    made.unshift((await stripe.paymentIntents.create(order)).id);
  }
  const seen: string[] = [];
  for await (const { id } of stripe.paymentIntents.list({ limit: 10 })) seen.push(id);
  assert.deepEqual(seen, made);
  const found: string[] = [];
  for await (const { id } of stripe.paymentIntents.search({ query: "currency:'eur'", limit: 10 })) {
    found.push(id);
  }
  assert.deepEqual(found, made);
});

test('each refusal is the error class that the package documents', async (t) => {
  const { stripe, url, control } = await aSimulator(t);
  const { errors } = Stripe;
  await assert.rejects(
    stripeAt(url, 'sk_live_1').paymentIntents.list(),
    errors.StripeAuthenticationError,
  );
  await assert.rejects(stripe.paymentIntents.create({ ...order, amount: 1 }), (error) => {
    assert.ok(error instanceof errors.StripeInvalidRequestError);
    assert.deepEqual([error.code, error.param], ['amount_too_small', 'amount']);
    return true;
  });
  const declined = stripe.paymentIntents.create({
    ...order,
    confirm: true,
    payment_method: 'pm_card_chargeDeclinedInsufficientFunds',
  });
  await assert.rejects(declined, (error) => {
    assert.ok(error instanceof errors.StripeCardError);
    assert.deepEqual([error.code, error.decline_code], ['card_declined', 'insufficient_funds']);
    assert.equal(error.payment_intent?.status, 'requires_payment_method');
    return true;
  });
  await stripe.paymentIntents.create(order, { idempotencyKey: 'once' });
  await assert.rejects(
    stripe.paymentIntents.create({ ...order, amount: 999 }, { idempotencyKey: 'once' }),
    errors.StripeIdempotencyError,
  );
  await control('POST', '/faults', { fault: 'rate-limit', count: 1 });
  await assert.rejects(stripe.paymentIntents.create(order), errors.StripeRateLimitError);
  await control('POST', '/faults', { fault: 'error', count: 1 });
  await assert.rejects(stripe.paymentIntents.create(order), errors.StripeAPIError);
  await control('POST', '/faults', { fault: 'half-body', count: 2 });
  await assert.rejects(stripe.paymentIntents.create(order), errors.StripeConnectionError);
});

test('a connection that is reset is retried once by the package, under the key it made itself', async (t) => {
  const { stripe, control } = await aSimulator(t);
  await control('POST', '/faults', { fault: 'reset-after', count: 1 });
  const { id, lastResponse } = await stripe.paymentIntents.create(order);
  assert.equal(lastResponse.headers['idempotent-replayed'], 'true');
  const { data } = await stripe.paymentIntents.list();
  assert.deepEqual(
    data.map((each) => each.id),
    [id],
  );
});

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
  'captures: in part, too much, again, after a cancellation': async (stripe) => {
    const order = { ...card, confirm: true, payment_method: 'pm_card_visa' };
    const hold = () => stripe.paymentIntents.create({ ...order, capture_method: 'manual' });
    const [taken, left] = [await hold(), await hold()];
    const tooMuch = await refusalOf(
      stripe.paymentIntents.capture(taken.id, { amount_to_capture: 1_251 }),
    );
    const captured = await stripe.paymentIntents.capture(taken.id, {
      amount_to_capture: 1_000,
      expand: ['latest_charge'],
    });
    const again = await refusalOf(stripe.paymentIntents.capture(taken.id));
    const canceled = await stripe.paymentIntents.cancel(left.id, { expand: ['latest_charge'] });
    const late = await refusalOf(stripe.paymentIntents.capture(left.id));
    return [
      ...[stateOf(left), tooMuch, stateOf(captured), chargeOf(captured), again],
      ...[stateOf(canceled), chargeOf(canceled), late],
    ];
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
  const { amount, amount_capturable, amount_received, currency, status } = intent;
  const { livemode, cancellation_reason } = intent;
  const paid = intent.latest_charge !== null;
  const amounts = { amount, amount_capturable, amount_received };
  return { ...amounts, currency, status, livemode, cancellation_reason, paid };
}

function chargeOf({ latest_charge }: Stripe.PaymentIntent): Seen {
  const { amount, amount_captured, amount_refunded, ...charge } = latest_charge as Stripe.Charge;
  const { currency, status, paid, refunded, captured } = charge;
  const amounts = { amount, amount_captured, amount_refunded };
  return { ...amounts, currency, status, paid, refunded, captured };
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
