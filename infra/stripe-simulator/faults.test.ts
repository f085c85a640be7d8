import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRandom } from '@triplock/runtime';
import { askAsStrangers, eventually } from '@triplock/testing';
import { createFaults, drawLatencyMs, type Fault } from './faults.ts';
import { aSimulator, stripeAt, type ASimulator } from './test/simulator.ts';

const strikes = (seed: number, others = 0) => {
  const faults = createFaults(seed);
  for (let count = 0; count < others; count += 1) faults.add({ fault: 'slow', operation: 'none' });
  faults.add({ fault: 'error', probability: 0.3 });
  return Array.from({ length: 200 }, () => faults.strike('refunds.create') !== undefined);
};

test('the same seed makes the same faults strike, another one others', () => {
  assert.deepEqual(strikes(7), strikes(7));
  assert.notDeepEqual(strikes(7), strikes(8));
  const hits = strikes(7).filter(Boolean).length;
  assert.ok(hits > 30 && hits < 90, `${hits} of 200 at 0.3`);
});

test('a fault strikes its operation only, as often as it may, and counts', () => {
  const faults = createFaults(1);
  const { id } = faults.add({ fault: 'error', operation: 'refunds.create', count: 2 });
  const struck = ['refunds.create', 'refunds.list', 'refunds.create', 'refunds.create'].map(
    (name) => faults.strike(name)?.fault,
  );
  assert.deepEqual(struck, ['error', undefined, 'error', undefined]);
  assert.partialDeepStrictEqual(faults.list(), [{ id, hits: 2, seen: 2 }]);
  assert.equal(faults.remove(id), 'removed');
  assert.equal(faults.remove(id), 'unknown');
});

test('of several faults one strikes a request, the first whose chance comes up', () => {
  const faults = createFaults(1);
  faults.add({ fault: 'error', probability: 0 });
  faults.add({ fault: 'slow' });
  faults.add({ fault: 'reset' });
  assert.equal(faults.strike('refunds.list')?.fault, 'slow');
  assert.deepEqual(
    faults.list().map(({ hits }) => hits),
    [0, 1, 0],
  );
});

test('reseeding begins the chances again', () => {
  const faults = createFaults(1);
  faults.add({ fault: 'error', probability: 0.5 });
  const draw = () => Array.from({ length: 50 }, () => faults.strike('refunds.list') !== undefined);
  faults.reseed(9);
  const first = draw();
  faults.reseed(9);
  assert.deepEqual(draw(), first);
});

test('latency has the median and the 99th percentile that it was given', () => {
  const random = createRandom(3);
  const draws = Array.from({ length: 20_000 }, () =>
    drawLatencyMs({ medianMs: 80, p99Ms: 900 }, random),
  );
  draws.sort((a, b) => a - b);
  const near = (actual: number, wanted: number) => Math.abs(actual - wanted) < wanted * 0.1;
  assert.ok(near(draws[10_000]!, 80), `median ${draws[10_000]}`);
  assert.ok(near(draws[19_800]!, 900), `p99 ${draws[19_800]}`);
  assert.equal(drawLatencyMs({ medianMs: 0, p99Ms: 0 }, random), 0);
});

// What a caller cannot tell apart: the payment was made, and it never learns. The way out is the
// same each time: retrieve the intent and go by its state.

const path = '/v1/payment_intents';
const operation = 'payment_intents.confirm';

async function aReadyIntent({ stripe }: ASimulator): Promise<string> {
  const order = { amount: 500, currency: 'eur', payment_method_types: ['card'] };
  const { id } = await stripe.paymentIntents.create({ ...order, payment_method: 'pm_card_visa' });
  return id;
}

async function hitsOf({ control }: ASimulator): Promise<number[]> {
  const { faults } = await control<{ faults: Fault[] }>('GET', '/faults');
  return faults.map(({ hits }) => hits);
}

for (const fault of ['time-out', 'reset-after', 'half-body'] as const) {
  test(`${fault}: the charge is made, the caller does not learn of it, and the intent knows`, async (t) => {
    const simulator = await aSimulator(t);
    const { send, stripe, control } = simulator;
    const id = await aReadyIntent(simulator);
    await control('POST', '/faults', { fault, operation, count: 1, delayMs: 20 });
    const confirm = { path: `${path}/${id}/confirm`, headers: { 'idempotency-key': 'c' } };
    await assert.rejects(send(confirm));
    assert.deepEqual(await hitsOf(simulator), [1]);
    assert.equal((await stripe.paymentIntents.retrieve(id)).status, 'succeeded');
    const again = await send(confirm);
    assert.deepEqual(
      [again.json.status, again.headers.get('idempotent-replayed')],
      ['succeeded', 'true'],
    );
    assert.equal((await stripe.charges.list({ payment_intent: id })).data.length, 1);
  });
}

for (const fault of ['reset', 'unavailable', 'rate-limit', 'error'] as const) {
  test(`${fault}: nothing is charged`, async (t) => {
    const simulator = await aSimulator(t);
    const { send, stripe, control } = simulator;
    const id = await aReadyIntent(simulator);
    await control('POST', '/faults', { fault, operation, count: 1 });
    const answer = await send({ path: `${path}/${id}/confirm` }).catch(() => undefined);
    assert.notEqual(answer?.status, 200);
    assert.deepEqual(await hitsOf(simulator), [1]);
    assert.equal((await stripe.paymentIntents.retrieve(id)).status, 'requires_confirmation');
    assert.equal((await stripe.charges.list()).data.length, 0);
  });
}

test('a caller that gives up before the answer was charged all the same', async (t) => {
  const simulator = await aSimulator(t);
  const { control, stripe, url } = simulator;
  const id = await aReadyIntent(simulator);
  await control('POST', '/faults', { fault: 'time-out', operation, count: 1 });
  const call = stripeAt(url).paymentIntents.confirm(id, {}, { timeout: 100 });
  await assert.rejects(call, { type: 'StripeConnectionError' });
  await eventually(async () => (await stripe.paymentIntents.retrieve(id)).status === 'succeeded');
});

test('error-after: a kept 500 hides a charge for a day', async (t) => {
  const simulator = await aSimulator(t);
  const { send, stripe, control } = simulator;
  const id = await aReadyIntent(simulator);
  await control('POST', '/faults', { fault: 'error-after', operation, count: 1 });
  const confirm = { path: `${path}/${id}/confirm`, headers: { 'idempotency-key': 'c' } };
  assert.equal((await send(confirm)).status, 500);
  assert.equal((await send(confirm)).status, 500);
  assert.equal((await stripe.paymentIntents.retrieve(id)).status, 'succeeded');
});

test('rate-limit says when to come back; slow answers in the end', async (t) => {
  // https://docs.stripe.com/rate-limits
  const simulator = await aSimulator(t);
  const { send, control } = simulator;
  await control('POST', '/faults', { fault: 'rate-limit', count: 1, retryAfterSeconds: 7 });
  const limited = await send({ method: 'GET', path });
  assert.deepEqual([limited.status, limited.headers.get('retry-after')], [429, '7']);
  assert.equal(limited.json.error.code, 'rate_limit');
  await control('POST', '/faults', { fault: 'slow', count: 1, delayMs: 60 });
  const start = performance.now();
  assert.equal((await send({ method: 'GET', path })).status, 200);
  assert.ok(performance.now() - start >= 55);
});

test('latency can be set while it runs, and is had by every operation', async (t) => {
  const { send, control } = await aSimulator(t);
  await control('PUT', '/settings', { latency: { medianMs: 60, p99Ms: 60 } });
  const start = performance.now();
  await send({ method: 'GET', path });
  assert.ok(performance.now() - start >= 55);
});

test('a fault that is misspelt is refused and is no fault', async (t) => {
  const simulator = await aSimulator(t);
  for (const wrong of [
    { fault: 'errror' },
    { fault: 'error', operation: 'payment_intent.confirm' },
    { fault: 'error', probability: 2 },
    { fault: 'error', chance: 0.5 },
    {},
  ]) {
    await assert.rejects(simulator.control('POST', '/faults', wrong), / 400 /);
  }
  assert.deepEqual(await hitsOf(simulator), []);
});

test('the audit finds what a caller that mints new keys does to its customers', async (t) => {
  const { stripe, control } = await aSimulator(t);
  const order = { amount: 500, currency: 'eur', payment_method_types: ['card'] };
  const paid = {
    ...order,
    payment_method: 'pm_card_visa',
    confirm: true,
    metadata: { txn_id: 't-1' },
  };
  const first = await stripe.paymentIntents.create(paid);
  const second = await stripe.paymentIntents.create(paid);
  assert.partialDeepStrictEqual(await control('GET', '/audit?metadata_key=txn_id'), {
    charges: { eur: { count: 2, amount: 1_000 } },
    chargedTwice: [],
    sharedMetadata: [{ value: 't-1', charges: [first.latest_charge, second.latest_charge] }],
  });
});

test('no control does anything for a page elsewhere, or for who has no token of the home', async (t) => {
  const { url, control, stripe } = await aSimulator(t);
  const order = { amount: 1_999, currency: 'eur', payment_method_types: ['card'] };
  const { id } = await stripe.paymentIntents.create({
    ...order,
    confirm: true,
    return_url: 'https://shop.example',
    payment_method: 'pm_card_authenticationRequired',
  });
  await control('POST', '/faults', { fault: 'error', operation: 'refunds.create' });
  const state = async () => {
    const { clock, ...rest } = await control<{ clock: { offsetMs: number } }>('GET', '');
    return { ...rest, offsetMs: clock.offsetMs };
  };
  const before = await state();
  const controls = [
    ...['', '/audit', '/faults', '/clock', '/webhooks', '/journal'].map((path) => `GET ${path}`),
    ...['faults', 'clock', 'settle', 'reset', 'webhooks/replay'].map((path) => `POST /${path}`),
    ...['seed', 'settings', 'webhooks'].map((path) => `PUT /${path}`),
    ...[`POST /payment_intents/${id}/authenticate`, 'DELETE /faults', 'DELETE /faults/1'],
  ];
  for (const each of controls) {
    const [method, path] = each.split(' ') as [string, string];
    const ask = { method, path: `/_simulator${path}`, body: '{}' };
    for (const [who, status] of await askAsStrangers(url, ask)) {
      assert.equal(status, 403, `${each}: ${who}`);
    }
  }
  // A customer's page and Stripe's own API have no token of ours, and no page elsewhere may post.
  for (const path of [`/_simulator/authenticate/${id}`, '/v1/refunds']) {
    const ask = { method: 'POST', path, body: 'outcome=succeeded' };
    for (const [who, status] of await askAsStrangers(url, ask, 'from elsewhere')) {
      assert.equal(status, 403, `${path}: ${who}`);
    }
  }
  assert.deepEqual(await state(), before);
  assert.equal((await stripe.paymentIntents.retrieve(id)).status, 'requires_action');
});
