import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Stripe } from 'stripe';
import { aSimulator, stripeAt } from './test/simulator.ts';
import { apiVersion } from './wire/errors.ts';

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
    ...{ object: 'charge', amount: 1_250, paid: true, status: 'succeeded' },
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
    ...{ ...order, confirm: true, payment_method: 'pm_card_chargeDeclinedInsufficientFunds' },
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
