import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { aSimulator, type ASimulator } from './test/simulator.ts';

// https://docs.stripe.com/payments/paymentintents/lifecycle ("lifecycle" below),
// https://docs.stripe.com/testing ("testing" below), https://docs.stripe.com/error-codes ("codes").

const card = { amount: 500, currency: 'eur', payment_method_types: ['card'] };
const bank = { amount: 500, currency: 'usd', payment_method_types: ['us_bank_account'] };
const pay = { confirm: true } as const;

async function codeOf(call: Promise<unknown>): Promise<unknown> {
  try {
    await call;
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
  return 'no error';
}

async function eventsOf({ stripe }: ASimulator, id: string): Promise<string[]> {
  const { data } = await stripe.events.list({ limit: 100 });
  const about = data.filter(({ data: { object } }) => (object as { id?: string }).id === id);
  return about.map(({ type }) => type).reverse();
}

test('lifecycle: an intent waits for a payment method, then for its confirmation', async (t) => {
  const { stripe } = await aSimulator(t);
  const open = await stripe.paymentIntents.create(card);
  assert.equal(open.status, 'requires_payment_method');
  assert.equal(
    await codeOf(stripe.paymentIntents.confirm(open.id)),
    'payment_intent_unexpected_state',
  );
  const ready = await stripe.paymentIntents.create({ ...card, payment_method: 'pm_card_visa' });
  assert.equal(ready.status, 'requires_confirmation');
  assert.equal(ready.latest_charge, null);
  assert.equal((await stripe.paymentIntents.confirm(ready.id)).status, 'succeeded');
});

test('codes: what has succeeded is not confirmed again, and the refusal holds the intent', async (t) => {
  const { stripe } = await aSimulator(t);
  const { id } = await stripe.paymentIntents.create({
    ...card,
    ...pay,
    payment_method: 'pm_card_visa',
  });
  await assert.rejects(stripe.paymentIntents.confirm(id), {
    type: 'StripeInvalidRequestError',
    statusCode: 400,
    code: 'payment_intent_unexpected_state',
  });
  await assert.rejects(stripe.paymentIntents.cancel(id), {
    code: 'payment_intent_unexpected_state',
  });
  const charges = await stripe.charges.list({ payment_intent: id });
  assert.equal(charges.data.length, 1);
});

test('two confirmations at once, under two keys, charge once', async (t) => {
  const { stripe, control } = await aSimulator(t);
  await control('PUT', '/settings', { latency: { medianMs: 20, p99Ms: 40 } });
  const { id } = await stripe.paymentIntents.create({ ...card, payment_method: 'pm_card_visa' });
  const keys = Array.from({ length: 10 }, (_, count) => `confirm-${count}`);
  const answers = await Promise.allSettled(
    keys.map((idempotencyKey) => stripe.paymentIntents.confirm(id, {}, { idempotencyKey })),
  );
  assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1);
  assert.equal((await stripe.charges.list({ payment_intent: id })).data.length, 1);
});

test('testing: each declining method says why, and the intent is open for another one', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe } = simulator;
  const table = [
    ['pm_card_chargeDeclined', 'card_declined', 'generic_decline'],
    ['pm_card_visa_chargeDeclined', 'card_declined', 'generic_decline'],
    ['pm_card_chargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
    ['pm_card_chargeDeclinedLostCard', 'card_declined', 'lost_card'],
    ['pm_card_chargeDeclinedStolenCard', 'card_declined', 'stolen_card'],
    ['pm_card_chargeDeclinedExpiredCard', 'expired_card', undefined],
    ['pm_card_chargeDeclinedIncorrectCvc', 'incorrect_cvc', undefined],
    ['pm_card_chargeDeclinedProcessingError', 'processing_error', undefined],
    ['pm_card_visa_chargeDeclinedVelocityLimitExceeded', 'card_declined', 'card_velocity_exceeded'],
  ] as const;
  for (const [payment_method, code, decline_code] of table) {
    const { id } = await stripe.paymentIntents.create({ ...card, payment_method });
    await assert.rejects(stripe.paymentIntents.confirm(id), {
      // The package makes an empty text of a decline code that is not there.
      statusCode: 402,
      code,
      decline_code: decline_code ?? '',
    });
    const after = await stripe.paymentIntents.retrieve(id, { expand: ['latest_charge'] });
    assert.deepEqual([after.status, after.payment_method], ['requires_payment_method', null]);
    assert.deepEqual(
      [after.last_payment_error?.code, after.last_payment_error?.decline_code],
      [code, decline_code],
    );
    assert.partialDeepStrictEqual(after.latest_charge, {
      status: 'failed',
      paid: false,
      failure_code: code,
    });
    assert.equal(
      (await stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_visa' })).status,
      'succeeded',
    );
  }
});

test('lifecycle: authentication leads to success, or back to the start without a charge', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe, control } = simulator;
  const asking = { ...card, ...pay, payment_method: 'pm_card_authenticationRequired' };
  const first = await stripe.paymentIntents.create(asking);
  assert.deepEqual([first.status, first.next_action?.type], ['requires_action', 'use_stripe_sdk']);
  assert.equal(first.latest_charge, null);
  await control('POST', `/payment_intents/${first.id}/authenticate`, { outcome: 'succeeded' });
  assert.equal((await stripe.paymentIntents.retrieve(first.id)).status, 'succeeded');
  assert.deepEqual(await eventsOf(simulator, first.id), [
    'payment_intent.created',
    'payment_intent.requires_action',
    'payment_intent.succeeded',
  ]);

  const second = await stripe.paymentIntents.create({
    ...asking,
    return_url: 'https://shop.example/done',
  });
  assert.equal(second.next_action?.redirect_to_url?.return_url, 'https://shop.example/done');
  await control('POST', `/payment_intents/${second.id}/authenticate`, { outcome: 'failed' });
  const failed = await stripe.paymentIntents.retrieve(second.id);
  assert.deepEqual([failed.status, failed.latest_charge], ['requires_payment_method', null]);
  assert.equal(failed.last_payment_error?.code, 'payment_intent_authentication_failure');
  await assert.rejects(
    control('POST', `/payment_intents/${second.id}/authenticate`, { outcome: 'succeeded' }),
  );
});

test('lifecycle: a customer who is redirected authenticates on a page and comes back', async (t) => {
  const { stripe } = await aSimulator(t);
  const asking = { ...card, ...pay, payment_method: 'pm_card_authenticationRequired' };
  const return_url = 'https://shop.example/done?order=1';
  for (const [outcome, status] of [
    ['succeeded', 'succeeded'],
    ['failed', 'requires_payment_method'],
  ] as const) {
    const { id, client_secret, next_action } = await stripe.paymentIntents.create({
      ...asking,
      return_url,
    });
    const page = next_action!.redirect_to_url!.url!;
    assert.match(await (await fetch(page)).text(), /<form method="post">/);
    const body = new URLSearchParams({ outcome });
    const answer = await fetch(page, { method: 'POST', body, redirect: 'manual' });
    const back = new URL(answer.headers.get('location')!);
    assert.deepEqual(Object.fromEntries(back.searchParams), {
      order: '1',
      payment_intent: id,
      redirect_status: outcome,
      payment_intent_client_secret: client_secret,
    });
    assert.equal((await stripe.paymentIntents.retrieve(id)).status, status);
    assert.equal((await fetch(page)).status, 404);
  }
});

test('testing: a card that asks is declined when nobody is there to answer', async (t) => {
  const { stripe } = await aSimulator(t);
  const payment_method = 'pm_card_authenticationRequired';
  for (const unattended of [{ off_session: true }, { error_on_requires_action: true }]) {
    const call = stripe.paymentIntents.create({ ...card, ...pay, payment_method, ...unattended });
    await assert.rejects(call, { statusCode: 402, code: 'authentication_required' });
  }
});

test('testing: the card that authenticates and is then declined', async (t) => {
  const { stripe, control } = await aSimulator(t);
  const payment_method = 'pm_card_authenticationRequiredChargeDeclinedInsufficientFunds';
  const { id } = await stripe.paymentIntents.create({ ...card, ...pay, payment_method });
  await control('POST', `/payment_intents/${id}/authenticate`, { outcome: 'succeeded' });
  const after = await stripe.paymentIntents.retrieve(id);
  assert.equal(after.last_payment_error?.decline_code, 'insufficient_funds');
});

test('lifecycle: a bank debit is processing until the bank has answered', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe, control } = simulator;
  const paid = await stripe.paymentIntents.create({
    ...bank,
    ...pay,
    payment_method: 'pm_usBankAccount_success',
  });
  assert.equal(paid.status, 'processing');
  assert.equal(
    await codeOf(stripe.paymentIntents.confirm(paid.id)),
    'payment_intent_unexpected_state',
  );
  const unpaid = await stripe.paymentIntents.create({
    ...bank,
    ...pay,
    payment_method: 'pm_usBankAccount_insufficientFunds',
  });
  const stuck = await stripe.paymentIntents.create({
    ...bank,
    ...pay,
    payment_method: 'pm_usBankAccount_processing',
  });

  assert.deepEqual(await control('POST', '/settle', {}), { settled: 2 });
  assert.equal((await stripe.paymentIntents.retrieve(paid.id)).status, 'succeeded');
  assert.deepEqual((await eventsOf(simulator, paid.id)).slice(1), [
    'payment_intent.processing',
    'payment_intent.succeeded',
  ]);
  const failed = await stripe.paymentIntents.retrieve(unpaid.id);
  assert.deepEqual(
    [failed.status, failed.last_payment_error?.code],
    ['requires_payment_method', 'insufficient_funds'],
  );
  const canceled = await stripe.paymentIntents.cancel(stuck.id);
  assert.deepEqual([canceled.status, canceled.amount_received], ['canceled', 0]);
});

test('a bank debit settles by itself when its time has come', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe, control } = simulator;
  const { id } = await stripe.paymentIntents.create({
    ...bank,
    ...pay,
    payment_method: 'pm_usBankAccount_success',
  });
  await control('POST', '/clock', { advanceMs: 86_400_000 });
  await eventually(async () => (await stripe.paymentIntents.retrieve(id)).status === 'succeeded');
});

test('lifecycle: a canceled intent says why and takes no money any more', async (t) => {
  const simulator = await aSimulator(t);
  const { stripe } = simulator;
  const { id } = await stripe.paymentIntents.create({ ...card, payment_method: 'pm_card_visa' });
  const canceled = await stripe.paymentIntents.cancel(id, { cancellation_reason: 'duplicate' });
  assert.deepEqual([canceled.status, canceled.cancellation_reason], ['canceled', 'duplicate']);
  assert.equal(await codeOf(stripe.paymentIntents.confirm(id)), 'payment_intent_unexpected_state');
  assert.equal(await codeOf(stripe.paymentIntents.cancel(id)), 'payment_intent_unexpected_state');
  assert.equal((await stripe.charges.list()).data.length, 0);
  assert.deepEqual((await eventsOf(simulator, id)).at(-1), 'payment_intent.canceled');
});

test('confirming on the server needs a return_url, or no methods that redirect', async (t) => {
  // https://docs.stripe.com/api/payment_intents/create, automatic_payment_methods.allow_redirects
  const { stripe } = await aSimulator(t);
  const order = { amount: 500, currency: 'eur', payment_method: 'pm_card_visa', ...pay };
  await assert.rejects(stripe.paymentIntents.create(order), {
    message: /must provide a `return_url`/,
  });
  const never = { enabled: true, allow_redirects: 'never' } as const;
  for (const enough of [
    { return_url: 'https://shop.example' },
    { automatic_payment_methods: never },
  ]) {
    assert.equal((await stripe.paymentIntents.create({ ...order, ...enough })).status, 'succeeded');
  }
});

test('what describes an intent can be changed, and an empty value removes a metadata key', async (t) => {
  // https://docs.stripe.com/api/metadata
  const { stripe } = await aSimulator(t);
  const { id } = await stripe.paymentIntents.create({ ...card, metadata: { a: '1', b: '2' } });
  const updated = await stripe.paymentIntents.update(id, {
    metadata: { b: '', c: '3' },
    description: 'x',
  });
  assert.deepEqual([updated.metadata, updated.description], [{ a: '1', c: '3' }, 'x']);
});
