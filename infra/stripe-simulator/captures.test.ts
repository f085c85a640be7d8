import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestStripe, eventually } from '@triplock/testing';
import { Stripe } from 'stripe';
import type { AccountAudit } from './store/account.ts';
import { aSimulator, type ASimulator } from './test/simulator.ts';

// https://docs.stripe.com/payments/place-a-hold-on-a-payment-method,
// https://docs.stripe.com/api/payment_intents/capture and …/cancel

const order = {
  amount: 1_000,
  currency: 'eur',
  payment_method_types: ['card'],
  capture_method: 'manual',
  confirm: true,
} as const;

async function aHold({ stripe }: ASimulator, payment_method = 'pm_card_visa') {
  return stripe.paymentIntents.create({ ...order, payment_method });
}

async function chargeOf({ stripe }: ASimulator, payment_intent: string): Promise<Stripe.Charge> {
  const { data } = await stripe.charges.list({ payment_intent, expand: ['data.refunds'] });
  assert.equal(data.length, 1);
  return data[0]!;
}

async function eventsOf({ stripe }: ASimulator, id: string): Promise<string[]> {
  const { data } = await stripe.events.list({ limit: 100 });
  const about = data.filter(({ data: { object } }) => {
    const { id: own, payment_intent } = object as { id?: string; payment_intent?: string };
    return own === id || payment_intent === id;
  });
  return about.map(({ type }) => type).reverse();
}

const audit = ({ control }: ASimulator) => control<AccountAudit>('GET', '/audit');
const unexpected = { statusCode: 400, code: 'payment_intent_unexpected_state' };

test('an authorisation holds the amount and takes nothing', async (t) => {
  const simulator = await aSimulator(t);
  const held = await aHold(simulator);
  assert.deepEqual(
    [held.status, held.capture_method, held.amount_capturable, held.amount_received],
    ['requires_capture', 'manual', 1_000, 0],
  );
  const charge = await chargeOf(simulator, held.id);
  assert.partialDeepStrictEqual(charge, {
    status: 'succeeded',
    paid: true,
    captured: false,
    amount_captured: 0,
    balance_transaction: null,
  });
  const { capture_before } = charge.payment_method_details!.card!;
  assert.equal(capture_before, charge.created + 604_800);
  assert.deepEqual(await eventsOf(simulator, held.id), [
    'payment_intent.created',
    'charge.succeeded',
    'payment_intent.amount_capturable_updated',
  ]);
  const { charges, held: sums } = await audit(simulator);
  assert.deepEqual([charges, sums], [{}, { eur: { count: 1, amount: 1_000 } }]);
  await assert.rejects(simulator.stripe.refunds.create({ payment_intent: held.id }), unexpected);
  await assert.rejects(simulator.stripe.paymentIntents.confirm(held.id), unexpected);
});

test('a whole capture takes everything, once, whoever asks again', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe } = simulator;
  const { id } = await aHold(simulator);
  const taken = await stripe.paymentIntents.capture(id, {}, { idempotencyKey: 'c' });
  assert.deepEqual(
    [taken.status, taken.amount_capturable, taken.amount_received],
    ['succeeded', 0, 1_000],
  );
  const again = await stripe.paymentIntents.capture(id, {}, { idempotencyKey: 'c' });
  assert.equal(again.lastResponse.headers['idempotent-replayed'], 'true');
  await assert.rejects(stripe.paymentIntents.capture(id), (error) => {
    assert.ok(error instanceof Stripe.errors.StripeInvalidRequestError);
    assert.deepEqual([error.code, error.statusCode], [unexpected.code, 400]);
    assert.equal(error.payment_intent?.status, 'succeeded');
    return true;
  });
  await assert.rejects(
    stripe.paymentIntents.capture(id, { amount_to_capture: 1 }, { idempotencyKey: 'c' }),
    Stripe.errors.StripeIdempotencyError,
  );
  assert.deepEqual((await eventsOf(simulator, id)).slice(3), [
    'charge.captured',
    'payment_intent.succeeded',
  ]);
  assert.deepEqual((await chargeOf(simulator, id)).refunds?.data, []);
});

test('a capture in part lets the rest go, and no more than it took is refunded', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe } = simulator;
  const { id } = await aHold(simulator);
  const taken = await stripe.paymentIntents.capture(id, {
    amount_to_capture: 700,
    metadata: { parcel: '1' },
  });
  assert.deepEqual(
    [taken.status, taken.amount, taken.amount_received, taken.metadata],
    ['succeeded', 1_000, 700, { parcel: '1' }],
  );
  const charge = await chargeOf(simulator, id);
  assert.partialDeepStrictEqual(charge, {
    captured: true,
    amount: 1_000,
    amount_captured: 700,
    amount_refunded: 300,
    refunded: false,
  });
  // The rest shows as a refund that nobody asked for and that moved no money.
  assert.partialDeepStrictEqual(charge.refunds?.data, [
    { amount: 300, status: 'succeeded', metadata: {}, balance_transaction: null },
  ]);
  const { data: moved } = await stripe.balanceTransactions.list({ source: charge.id });
  assert.deepEqual(
    moved.map(({ id: own, type, amount, net }) => [own, type, amount, net]),
    [[charge.balance_transaction, 'charge', 700, 700]],
  );

  await assert.rejects(stripe.refunds.create({ payment_intent: id, amount: 701 }), {
    statusCode: 400,
    param: 'amount',
  });
  const refund = await stripe.refunds.create({ payment_intent: id });
  assert.equal(refund.amount, 700);
  await assert.rejects(stripe.refunds.create({ payment_intent: id }), {
    code: 'charge_already_refunded',
  });
  const { charges, held, refunds } = await audit(simulator);
  const sum = { eur: { count: 1, amount: 700 } };
  assert.deepEqual([charges, held, refunds], [sum, {}, sum]);
});

test('"an invalid amount to capture" is refused, and can be captured right yet', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe } = simulator;
  const { id } = await aHold(simulator);
  await assert.rejects(stripe.paymentIntents.capture(id, { amount_to_capture: 1_001 }), (error) => {
    assert.ok(error instanceof Stripe.errors.StripeInvalidRequestError);
    assert.deepEqual([error.code, error.param], ['amount_too_large', 'amount_to_capture']);
    assert.equal(error.payment_intent?.status, 'requires_capture');
    return true;
  });
  for (const amount_to_capture of [0, -1]) {
    await assert.rejects(stripe.paymentIntents.capture(id, { amount_to_capture }), {
      code: 'parameter_invalid_integer',
    });
  }
  await assert.rejects(stripe.paymentIntents.capture('pi_unknown'), {
    statusCode: 404,
    code: 'resource_missing',
  });
  assert.equal((await stripe.paymentIntents.capture(id)).amount_received, 1_000);
});

test('what holds nothing is not captured', async (t) => {
  const { stripe } = await aSimulator(t);
  const waits = await stripe.paymentIntents.create({ ...order, confirm: false });
  const automatic = { ...order, capture_method: 'automatic_async' } as const;
  const paid = await stripe.paymentIntents.create({ ...automatic, payment_method: 'pm_card_visa' });
  for (const { id } of [waits, paid]) {
    await assert.rejects(stripe.paymentIntents.capture(id), unexpected);
  }
  const bank = { ...order, currency: 'usd', payment_method_types: ['us_bank_account'] };
  await assert.rejects(
    stripe.paymentIntents.create({ ...bank, payment_method: 'pm_usBankAccount_success' }),
    { param: 'capture_method' },
  );
});

test('a hold that its customer authenticates waits to be captured', async (t) => {
  const simulator = await aSimulator(t);
  const asked = await aHold(simulator, 'pm_card_authenticationRequired');
  assert.deepEqual([asked.status, asked.amount_capturable], ['requires_action', 0]);
  const path = `/payment_intents/${asked.id}/authenticate`;
  await simulator.control('POST', path, { outcome: 'succeeded' });
  const { status } = await simulator.stripe.paymentIntents.retrieve(asked.id);
  assert.equal(status, 'requires_capture');
});

test('"the remaining amount_capturable is automatically refunded" when it is canceled', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe } = simulator;
  const { id } = await aHold(simulator);
  const canceled = await stripe.paymentIntents.cancel(id, {
    cancellation_reason: 'requested_by_customer',
  });
  assert.deepEqual(
    [canceled.status, canceled.cancellation_reason, canceled.amount_capturable],
    ['canceled', 'requested_by_customer', 0],
  );
  assert.partialDeepStrictEqual(await chargeOf(simulator, id), {
    captured: false,
    amount_captured: 0,
    amount_refunded: 1_000,
    refunded: true,
    refunds: { data: [{ amount: 1_000, balance_transaction: null }] },
  });
  await assert.rejects(stripe.paymentIntents.capture(id), unexpected);
  await assert.rejects(stripe.paymentIntents.cancel(id), unexpected);
  assert.deepEqual((await stripe.balanceTransactions.list()).data, []);
  assert.deepEqual((await eventsOf(simulator, id)).slice(3), [
    'charge.refunded',
    'payment_intent.canceled',
  ]);
  const { charges, held, refunds } = await audit(simulator);
  assert.deepEqual([charges, held, refunds], [{}, {}, {}]);
});

test('an authorisation that nobody captures expires by itself, and one by one on demand', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe, control } = simulator;
  const first = await aHold(simulator);
  const statusOf = async (id: string) => (await stripe.paymentIntents.retrieve(id)).status;
  assert.deepEqual(await control('POST', '/settle', {}), { settled: 0 });
  await control('POST', '/clock', { advanceMs: 604_800_000 });
  await eventually(async () => (await statusOf(first.id)) === 'canceled');
  const expired = await stripe.paymentIntents.retrieve(first.id);
  assert.equal(expired.cancellation_reason, 'automatic');
  assert.deepEqual((await eventsOf(simulator, first.id)).slice(3), [
    'charge.expired',
    'payment_intent.canceled',
  ]);
  await assert.rejects(stripe.paymentIntents.capture(first.id), unexpected);

  const [one, other] = [await aHold(simulator), await aHold(simulator)];
  assert.deepEqual(await control('POST', '/expire', { id: one.id }), { expired: 1 });
  assert.deepEqual(
    [await statusOf(one.id), await statusOf(other.id)],
    ['canceled', 'requires_capture'],
  );
  assert.deepEqual(await control('POST', '/expire', {}), { expired: 1 });
  await control('PUT', '/settings', { authorizedForMs: 0 });
  const last = await aHold(simulator);
  await eventually(async () => (await statusOf(last.id)) === 'canceled');
});

test('of captures and cancellations at once one wins, and the charge is what it says', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe, control } = simulator;
  await control('PUT', '/settings', { latency: { medianMs: 10, p99Ms: 30 } });
  const { id } = await aHold(simulator);
  const answers = await Promise.allSettled(
    [200, 400, 600, 800].flatMap((amount_to_capture) => [
      stripe.paymentIntents.capture(id, { amount_to_capture }),
      stripe.paymentIntents.cancel(id),
    ]),
  );
  const won = answers.filter((answer) => answer.status === 'fulfilled');
  assert.equal(won.length, 1);
  const { amount_captured, amount_refunded, captured } = await chargeOf(simulator, id);
  const { amount_received, status } = won[0]!.value;
  assert.deepEqual([amount_captured, 1_000 - amount_refunded], [amount_received, amount_received]);
  assert.equal(status, captured ? 'succeeded' : 'canceled');
});

test('what is held, and when it expires, outlives a kill', async (t) => {
  const stripe = await createTestStripe(t, { STRIPE_SIMULATOR_AUTHORIZED_FOR_MS: '3600000' });
  const client = () =>
    new Stripe(stripe.apiKey, { ...stripe.connection, maxNetworkRetries: 0, telemetry: false });
  const create = () => client().paymentIntents.create({ ...order, payment_method: 'pm_card_visa' });
  const [taken, left] = [await create(), await create()];
  await client().paymentIntents.capture(taken.id, { amount_to_capture: 600 });
  await stripe.kill();
  await stripe.start();
  const read = (id: string) => client().paymentIntents.retrieve(id);
  assert.equal((await read(taken.id)).amount_received, 600);
  assert.equal((await read(left.id)).amount_capturable, 1_000);
  const moved = async () => (await client().balanceTransactions.list()).data;
  assert.deepEqual(
    (await moved()).map(({ amount }) => amount),
    [600],
  );
  await stripe.control('POST', '/clock', { advanceMs: 3_600_000 });
  await eventually(async () => (await read(left.id)).status === 'canceled');
  assert.equal((await moved()).length, 1);
});
