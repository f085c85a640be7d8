import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stripe } from 'stripe';
import { aSimulator } from './test/simulator.ts';

// https://docs.stripe.com/refunds and https://docs.stripe.com/testing#refunds

async function aPayment(stripe: Stripe, payment_method = 'pm_card_visa'): Promise<string> {
  const order = { amount: 1_000, currency: 'eur', payment_method_types: ['card'], confirm: true };
  const { id } = await stripe.paymentIntents.create({ ...order, payment_method });
  return id;
}

async function refundedOf(stripe: Stripe, payment_intent: string): Promise<number> {
  const { data } = await stripe.charges.list({ payment_intent });
  return data[0]!.amount_refunded;
}

test('"you can\'t refund a total greater than the original charge amount"', async (t) => {
  const { stripe } = await aSimulator(t);
  const payment_intent = await aPayment(stripe);
  await stripe.refunds.create({ payment_intent, amount: 400 });
  await assert.rejects(stripe.refunds.create({ payment_intent, amount: 601 }), {
    statusCode: 400,
    param: 'amount',
  });
  const rest = await stripe.refunds.create({ payment_intent, reason: 'requested_by_customer' });
  assert.equal(rest.amount, 600);
  await assert.rejects(stripe.refunds.create({ payment_intent }), {
    code: 'charge_already_refunded',
  });
  assert.equal(await refundedOf(stripe, payment_intent), 1_000);
});

test('ten refunds at once never exceed the payment', async (t) => {
  const { stripe, control } = await aSimulator(t);
  const payment_intent = await aPayment(stripe);
  await control('PUT', '/settings', { latency: { medianMs: 10, p99Ms: 30 } });
  const answers = await Promise.allSettled(
    Array.from({ length: 10 }, () => stripe.refunds.create({ payment_intent, amount: 300 })),
  );
  assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 3);
  assert.equal(await refundedOf(stripe, payment_intent), 900);
});

test('a payment that did not succeed has nothing to refund', async (t) => {
  const { stripe } = await aSimulator(t);
  const { id } = await stripe.paymentIntents.create({ amount: 1_000, currency: 'eur' });
  await assert.rejects(stripe.refunds.create({ payment_intent: id }), { statusCode: 400 });
  await assert.rejects(stripe.refunds.create({ payment_intent: 'pi_unknown' }), {
    statusCode: 400,
    code: 'resource_missing',
    param: 'payment_intent',
  });
  await assert.rejects(stripe.refunds.create({}), { code: 'parameter_missing' });
});

test('pm_card_pendingRefund: the refund is pending at first and succeeds later', async (t) => {
  const { stripe, control } = await aSimulator(t);
  const payment_intent = await aPayment(stripe, 'pm_card_pendingRefund');
  const { id, status } = await stripe.refunds.create({ payment_intent });
  assert.equal(status, 'pending');
  await control('POST', '/settle', { id });
  assert.equal((await stripe.refunds.retrieve(id)).status, 'succeeded');
  const { data } = await stripe.events.list({ type: 'refund.updated' });
  assert.partialDeepStrictEqual(data[0]?.data.object, { id, status: 'succeeded' });
});

test('pm_card_refundFail: the refund succeeds at first, fails later, and gives its amount back', async (t) => {
  const { stripe, control } = await aSimulator(t);
  const payment_intent = await aPayment(stripe, 'pm_card_refundFail');
  const { id, status } = await stripe.refunds.create({ payment_intent, amount: 300 });
  assert.equal(status, 'succeeded');
  assert.equal(await refundedOf(stripe, payment_intent), 300);
  await control('POST', '/settle', { id });
  const failed = await stripe.refunds.retrieve(id);
  assert.equal(failed.status, 'failed');
  assert.ok(failed.failure_reason);
  assert.equal(await refundedOf(stripe, payment_intent), 0);
  const { data } = await stripe.events.list({ type: 'refund.failed' });
  assert.partialDeepStrictEqual(data[0]?.data.object, { id });
});

test('refunds are listed by payment and by charge, and expand to both sides', async (t) => {
  const { stripe } = await aSimulator(t);
  const payment_intent = await aPayment(stripe);
  await aPayment(stripe);
  const made = await stripe.refunds.create({ payment_intent, metadata: { txn_id: 'r-1' } });
  const charge = made.charge as string;
  for (const by of [{ payment_intent }, { charge }]) {
    const { data } = await stripe.refunds.list(by);
    assert.deepEqual(
      data.map(({ id, metadata }) => [id, metadata]),
      [[made.id, { txn_id: 'r-1' }]],
    );
  }
  const whole = await stripe.charges.retrieve(charge, { expand: ['refunds', 'payment_intent'] });
  assert.equal(whole.refunds?.data[0]?.id, made.id);
  assert.partialDeepStrictEqual(whole.payment_intent, { id: payment_intent });
});
