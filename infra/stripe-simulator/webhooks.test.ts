import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { eventually } from '@triplock/testing';
import { Stripe } from 'stripe';
import { aSimulator, testSecret } from './test/simulator.ts';

// https://docs.stripe.com/webhooks: signatures, retries, no promised order, duplicates.

const order = { amount: 500, currency: 'eur', payment_method_types: ['card'] };
const paid = { ...order, payment_method: 'pm_card_visa', confirm: true };

type Endpoint = {
  url: string;
  received: Stripe.Event[];
  refuseNext(times: number): void;
  server: Server;
};

/**
 * An endpoint that verifies with the package's own `constructEvent`, and fails on demand.
 */
async function anEndpoint(test: TestContext): Promise<Endpoint> {
  const received: Stripe.Event[] = [];
  let refusals = 0;
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const signature = request.headers['stripe-signature'] ?? '';
      received.push(Stripe.webhooks.constructEvent(Buffer.concat(parts), signature, testSecret));
      response.writeHead(refusals > 0 ? 500 : 200).end();
      refusals = Math.max(refusals - 1, 0);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/stripe`;
  return { url, received, refuseNext: (times) => (refusals = times), server };
}

const types = ({ received }: Endpoint) => received.map(({ type }) => type);

test('events arrive signed as constructEvent verifies them, and are those of the list', async (t) => {
  const endpoint = await anEndpoint(t);
  const { stripe, control } = await aSimulator(t);
  await control('PUT', '/webhooks', { url: endpoint.url, order: 'created' });
  const { id } = await stripe.paymentIntents.create(paid, { idempotencyKey: 'k' });
  await eventually(async () => endpoint.received.length === 3);
  assert.deepEqual(types(endpoint), [
    'payment_intent.created',
    'charge.succeeded',
    'payment_intent.succeeded',
  ]);
  const { data } = await stripe.events.list();
  assert.deepEqual(endpoint.received, data.reverse());
  assert.equal(endpoint.received[2]!.request?.idempotency_key, 'k');
  assert.partialDeepStrictEqual(endpoint.received[2]!.data.object, { id, status: 'succeeded' });
});

test('a wrong secret does not verify', async (t) => {
  const endpoint = await anEndpoint(t);
  endpoint.server.removeAllListeners('request');
  const failures: unknown[] = [];
  endpoint.server.on('request', (request, response) => {
    const signature = String(request.headers['stripe-signature']);
    request.on('data', (body: Buffer) => {
      try {
        Stripe.webhooks.constructEvent(body, signature, 'whsec_other');
      } catch (error) {
        failures.push(error);
      }
    });
    request.on('end', () => response.writeHead(200).end());
  });
  const { stripe, control } = await aSimulator(t);
  await control('PUT', '/webhooks', { url: endpoint.url });
  await stripe.paymentIntents.create(order);
  await eventually(async () => failures.length === 1);
  assert.ok(failures[0] instanceof Stripe.errors.StripeSignatureVerificationError);
});

test('an event is sent until it is taken, with the same id and a fresh signature', async (t) => {
  const endpoint = await anEndpoint(t);
  const { stripe, control } = await aSimulator(t);
  endpoint.refuseNext(2);
  await control('PUT', '/webhooks', { url: endpoint.url });
  await stripe.paymentIntents.create(order);
  for (const attempts of [1, 2, 3]) {
    await eventually(async () => endpoint.received.length >= attempts);
    await control('POST', '/clock', { advanceMs: 3_600_000 });
  }
  assert.equal(new Set(endpoint.received.map(({ id }) => id)).size, 1);
  const left = await control<{ undelivered: unknown[] }>('GET', '/webhooks');
  assert.deepEqual(left.undelivered, []);
});

test('every event of a long queue arrives, those refused once more and no other twice', async (t) => {
  const endpoint = await anEndpoint(t);
  const { stripe, control } = await aSimulator(t);
  await control('PUT', '/webhooks', { url: endpoint.url, paused: true });
  for (let n = 0; n < 50; n += 1) await stripe.paymentIntents.create(paid);
  endpoint.refuseNext(10);
  await control('PUT', '/webhooks', { paused: false });
  const left = async () =>
    (await control<{ undelivered: unknown[] }>('GET', '/webhooks')).undelivered;
  await eventually(async () => endpoint.received.length === 150 && (await left()).length === 10);
  await control('POST', '/clock', { advanceMs: 3_600_000 });
  await eventually(async () => (await left()).length === 0);
  const { data } = await stripe.events.list({ limit: 100 });
  const ids = endpoint.received.map(({ id }) => id);
  assert.deepEqual([ids.length, new Set(ids).size], [160, 150]);
  assert.ok(data.every(({ id }) => ids.includes(id)));
});

test('an endpoint that is down for three days is given up', async (t) => {
  const endpoint = await anEndpoint(t);
  const { stripe, control } = await aSimulator(t);
  endpoint.refuseNext(1_000);
  await control('PUT', '/webhooks', { url: endpoint.url });
  await stripe.paymentIntents.create(order);
  await eventually(async () => endpoint.received.length >= 1);
  await control('POST', '/clock', { advanceMs: 3 * 86_400_000 });
  await eventually(async () => {
    return (await control<{ undelivered: unknown[] }>('GET', '/webhooks')).undelivered.length === 0;
  });
  assert.equal(new Set(endpoint.received.map(({ id }) => id)).size, 1);
});

test('events come twice and in the wrong order on demand', async (t) => {
  const endpoint = await anEndpoint(t);
  const { stripe, control } = await aSimulator(t);
  await control('PUT', '/webhooks', {
    url: endpoint.url,
    paused: true,
    order: 'reversed',
    copies: 2,
  });
  await stripe.paymentIntents.create(paid);
  assert.deepEqual(types(endpoint), []);
  await control('PUT', '/webhooks', { paused: false });
  await eventually(async () => endpoint.received.length === 6);
  const reversed = ['payment_intent.succeeded', 'charge.succeeded', 'payment_intent.created'];
  assert.deepEqual(
    types(endpoint),
    reversed.flatMap((type) => [type, type]),
  );
});

test('events that were taken can be sent once more', async (t) => {
  const endpoint = await anEndpoint(t);
  const { stripe, control } = await aSimulator(t);
  await control('PUT', '/webhooks', { url: endpoint.url });
  await stripe.paymentIntents.create(paid);
  await eventually(async () => endpoint.received.length === 3);
  await control('POST', '/webhooks/replay', { type: 'payment_intent.succeeded' });
  await eventually(async () => endpoint.received.length === 4);
  const succeeded = endpoint.received.filter(({ type }) => type === 'payment_intent.succeeded');
  assert.equal(new Set(succeeded.map(({ id }) => id)).size, 1);
});

test('each way a payment can go has its event', async (t) => {
  const { stripe, control } = await aSimulator(t);
  const seen = async () =>
    new Set((await stripe.events.list({ limit: 100 })).data.map(({ type }) => type));
  const { id } = await stripe.paymentIntents.create(paid);
  await stripe.refunds.create({ payment_intent: id });
  const asks = { ...paid, payment_method: 'pm_card_authenticationRequired' };
  const asked = await stripe.paymentIntents.create(asks);
  await stripe.paymentIntents.cancel(asked.id);
  await assert.rejects(
    stripe.paymentIntents.create({ ...paid, payment_method: 'pm_card_chargeDeclined' }),
  );
  const bank = { ...paid, currency: 'usd', payment_method_types: ['us_bank_account'] };
  await stripe.paymentIntents.create({ ...bank, payment_method: 'pm_usBankAccount_success' });
  const late = await stripe.paymentIntents.create({
    ...paid,
    payment_method: 'pm_card_refundFail',
  });
  await stripe.refunds.create({ payment_intent: late.id });
  await control('POST', '/settle', {});
  const held = { ...paid, capture_method: 'manual' } as const;
  const [taken] = [
    await stripe.paymentIntents.create(held),
    await stripe.paymentIntents.create(held),
  ];
  await stripe.paymentIntents.capture(taken.id);
  await control('POST', '/expire', {});
  await control('POST', `/payment_intents/${taken.id}/dispute`, {});
  const wanted = [
    ...['created', 'succeeded', 'payment_failed', 'requires_action', 'processing', 'canceled'].map(
      (what) => `payment_intent.${what}`,
    ),
    'payment_intent.amount_capturable_updated',
    ...['charge.captured', 'charge.expired', 'charge.dispute.created'],
    ...['charge.refunded', 'refund.created', 'refund.updated', 'refund.failed'],
  ];
  const events = await seen();
  assert.deepEqual(
    wanted.filter((type) => !events.has(type as Stripe.Event.Type)),
    [],
  );
});
