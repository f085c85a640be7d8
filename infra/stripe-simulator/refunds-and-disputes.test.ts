import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stripe } from 'stripe';
import type { AccountAudit } from './store/account.ts';
import { aSimulator, type ASimulator } from './test/simulator.ts';

// https://docs.stripe.com/refunds and https://docs.stripe.com/testing#refunds,
// https://docs.stripe.com/disputes/how-disputes-work and https://docs.stripe.com/testing#disputes

const order = { amount: 1_000, currency: 'eur', payment_method_types: ['card'], confirm: true };

async function aPayment(stripe: Stripe, payment_method = 'pm_card_visa'): Promise<string> {
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

async function disputeOf({ stripe }: ASimulator, payment_intent: string): Promise<Stripe.Dispute> {
  const { data } = await stripe.disputes.list({ payment_intent });
  assert.equal(data.length, 1);
  return data[0]!;
}

async function disputeEvents({ stripe }: ASimulator, id: string): Promise<string[]> {
  const { data } = await stripe.events.list({ limit: 100 });
  return data
    .filter(({ data: { object } }) => (object as { id?: string }).id === id)
    .map(({ type }) => type.replace('charge.dispute.', ''))
    .reverse();
}

test('pm_card_createDispute: the charge succeeds, and its whole amount is disputed', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe } = simulator;
  const payment_intent = await aPayment(stripe, 'pm_card_createDispute');
  const dispute = await disputeOf(simulator, payment_intent);
  assert.partialDeepStrictEqual(dispute, {
    object: 'dispute',
    amount: 1_000,
    currency: 'eur',
    payment_intent,
    reason: 'fraudulent',
    status: 'needs_response',
  });
  assert.deepEqual(
    dispute.balance_transactions.map(({ type, amount, reporting_category }) => {
      return [type, amount, reporting_category];
    }),
    [['adjustment', -1_000, 'dispute']],
  );
  const charge = await stripe.charges.retrieve(dispute.charge as string);
  assert.deepEqual([charge.status, charge.disputed], ['succeeded', true]);
  assert.deepEqual(await disputeEvents(simulator, dispute.id), ['created', 'funds_withdrawn']);
  await assert.rejects(stripe.refunds.create({ payment_intent }), { code: 'charge_disputed' });
  const expanded = await stripe.disputes.retrieve(dispute.id, { expand: ['charge'] });
  assert.partialDeepStrictEqual(expanded.charge, { object: 'charge', disputed: true });
});

test('a customer disputes at any time what was captured and not given back, also in parts', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe, control } = simulator;
  const held = await stripe.paymentIntents.create({
    ...order,
    capture_method: 'manual',
    payment_method: 'pm_card_visa',
  });
  const path = `/payment_intents/${held.id}/dispute`;
  await assert.rejects(control('POST', path, {}), /409/);
  await stripe.paymentIntents.capture(held.id, { amount_to_capture: 700 });
  await stripe.refunds.create({ payment_intent: held.id, amount: 100 });
  await assert.rejects(control('POST', path, { amount: 601 }), /409/);
  await control('POST', path, { reason: 'product_not_received', amount: 200 });
  await assert.rejects(control('POST', path, { amount: 401 }), /409/);
  const { id } = await control<{ id: string }>('POST', path, {});
  await assert.rejects(control('POST', path, {}), /409/);
  await assert.rejects(control('POST', '/payment_intents/pi_unknown/dispute', {}), /404/);
  await control('POST', `/disputes/${id}/close`, { outcome: 'won' });
  await assert.rejects(stripe.refunds.create({ payment_intent: held.id }), {
    code: 'charge_disputed',
  });
  await control('POST', path, { amount: 1 });
  const { data } = await stripe.disputes.list({ payment_intent: held.id });
  assert.deepEqual(
    data.map(({ amount, reason }) => [amount, reason]),
    [
      [1, 'fraudulent'],
      [400, 'fraudulent'],
      [200, 'product_not_received'],
    ],
  );
});

test('a dispute is won or lost, once, and money of one that is won comes back', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe, control } = simulator;
  const [won, lost] = [
    await disputeOf(simulator, await aPayment(stripe, 'pm_card_createDispute')),
    await disputeOf(simulator, await aPayment(stripe, 'pm_card_createDisputeProductNotReceived')),
  ];
  await control('POST', `/disputes/${won.id}/close`, { outcome: 'won' });
  await assert.rejects(control('POST', `/disputes/${won.id}/close`, { outcome: 'lost' }), /409/);
  assert.equal((await stripe.disputes.close(lost.id)).status, 'lost');
  await assert.rejects(stripe.disputes.close(lost.id), { statusCode: 400 });
  await assert.rejects(stripe.disputes.close('du_unknown'), { code: 'resource_missing' });

  const before = ['created', 'funds_withdrawn', 'closed'];
  assert.deepEqual(await disputeEvents(simulator, won.id), [...before, 'funds_reinstated']);
  assert.deepEqual(await disputeEvents(simulator, lost.id), before);
  const sumOf = async ({ id }: Stripe.Dispute) => {
    const { data } = await stripe.balanceTransactions.list({ source: id });
    return data.reduce((sum, { net }) => sum + net, 0);
  };
  assert.deepEqual([await sumOf(won), await sumOf(lost)], [0, -1_000]);
  const { disputes } = await control<AccountAudit>('GET', '/audit');
  assert.deepEqual(disputes, { eur: { count: 1, amount: 1_000 } });
  const refund = await stripe.refunds.create({ payment_intent: won.payment_intent as string });
  assert.equal(refund.amount, 1_000);
});

test('a refund that fails moves its amount back', async (t) => {
  const { stripe, control } = await aSimulator(t);
  const payment_intent = await aPayment(stripe, 'pm_card_refundFail');
  const { id } = await stripe.refunds.create({ payment_intent, amount: 300 });
  await control('POST', '/settle', { id });
  const { data } = await stripe.balanceTransactions.list();
  assert.deepEqual(
    data.map(({ type, amount }) => [type, amount]),
    [
      ['refund_failure', 300],
      ['refund', -300],
      ['charge', 1_000],
    ],
  );
});
