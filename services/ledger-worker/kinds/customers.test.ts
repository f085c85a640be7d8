import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import type { AcceptedPayment } from '@triplock/payments';
import type { SealedText } from '@triplock/runtime';
import {
  aPayment,
  aRefund,
  createTestStripe,
  eventually,
  type TestStripe,
} from '@triplock/testing';
import { chargePayment } from './payment.ts';
import {
  aPipeline,
  aProvider,
  providersWith,
  recordOf,
  refundRecordOf,
  traceparent,
} from '../test/pipeline.ts';

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

const hourMs = 3_600_000;
const authenticates = 'pm_card_authenticationRequired';

/** Workers at a simulator that has forgotten what the tests before did. */
async function aCharging(context: TestContext) {
  await stripe.control('POST', '/reset');
  const pipeline = await aPipeline(context);
  const work = (actionExpiresMs = 24 * hourMs) =>
    pipeline.work({ provider: aProvider(stripe), actionExpiresMs });
  const rowOf = async ({ txnId }: AcceptedPayment) => {
    const sql = `
      SELECT state, failure_code, provider_intent_id AS intent, next_action
      FROM ledger.transactions WHERE txn_id = $1`;
    type Row = {
      state: string;
      failure_code: string | null;
      intent: string;
      next_action: string | null;
    };
    return (await pipeline.owner.query<Row>(sql, [txnId]))[0]!;
  };
  const letTimePass = () =>
    pipeline.owner.query(`
      UPDATE ledger.transactions SET due_at = now(), version = version + 1
      WHERE state = 'pending'`);
  const authenticate = async (payment: AcceptedPayment, outcome: 'succeeded' | 'failed') => {
    const { intent } = await rowOf(payment);
    await stripe.control('POST', `/payment_intents/${intent}/authenticate`, { outcome });
  };
  const entries = () => pipeline.owner.query('SELECT FROM ledger.entries');
  /** What the customer's browser, or somebody at the provider's own page, asks of an intent. */
  const ask = async (payment: AcceptedPayment, call: string, parameters: object) => {
    const { intent } = await rowOf(payment);
    const answer = await fetch(`${stripe.url}/v1/payment_intents/${intent}/${call}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${stripe.apiKey}` },
      body: new URLSearchParams({ ...parameters }),
    });
    return { status: answer.status, text: await answer.text() };
  };
  const told = async () => {
    const sql = 'SELECT event_type AS type FROM ledger.outbox ORDER BY sequence';
    return (await pipeline.owner.query<{ type: string }>(sql)).map(({ type }) => type);
  };
  return { ...pipeline, work, rowOf, letTimePass, authenticate, entries, ask, told };
}

const anotherCard = { payment_method: 'pm_card_visa' };

for (const captureMethod of [undefined, 'manual'] as const) {
  const wish = { paymentMethod: authenticates, ...(captureMethod && { captureMethod }) };
  const way = captureMethod ?? 'at once';
  test(`a payment that was told as failed is charged by nobody afterwards, not even with the secret that its customer has (captured ${way})`, async (context) => {
    const { work, append, letTimePass, rowOf, authenticate, ask, told } = await aCharging(context);
    const worker = work();
    const payment = aPayment(wish);
    await append(recordOf(payment));
    await worker.allCommitted();
    await authenticate(payment, 'failed');
    await letTimePass();
    assert.equal(await worker.resolve(), 1);
    assert.equal((await rowOf(payment)).state, 'failed');
    const retried = await ask(payment, 'confirm', anotherCard);
    assert.equal(retried.status, 400, retried.text);
    const { charges, held } = await stripe.control<{ charges: object; held: object }>(
      'GET',
      '/audit',
    );
    assert.deepEqual([charges, held], [{}, {}]);
    assert.deepEqual(await told(), ['payment.requires_action', 'payment.failed']);
  });
}

test('a customer who pays with another card before the refusal is an end has paid', async (context) => {
  const { work, append, authenticate, ask, rowOf, told, entries } = await aCharging(context);
  const worker = work();
  const payment = aPayment({ paymentMethod: authenticates });
  await append(recordOf(payment));
  await worker.allCommitted();
  await authenticate(payment, 'failed');
  const provider = aProvider(stripe);
  const pays: typeof provider = {
    ...provider,
    readIntent: async (asked) => {
      const seen = await provider.readIntent(asked);
      if (seen.outcome === 'reopened') await ask(payment, 'confirm', anotherCard);
      return seen;
    },
  };
  const row = (await worker.ledger.find(payment.txnId))!;
  const ended = await chargePayment(
    { ...worker, providers: providersWith({ stripe: pays }) },
    { payment: row, traceparent },
  );
  assert.deepEqual(ended, { outcome: 'settled', state: 'succeeded' });
  assert.equal((await rowOf(payment)).state, 'succeeded');
  assert.deepEqual(await told(), ['payment.requires_action', 'payment.succeeded']);
  assert.equal((await entries()).length, 1);
});

test('a worker that dies between cancelling what was refused and settling it leaves the reason', async (context) => {
  const { work, append, letTimePass, rowOf, authenticate } = await aCharging(context);
  const worker = work();
  const payment = aPayment({ paymentMethod: authenticates });
  await append(recordOf(payment));
  await worker.allCommitted();
  await authenticate(payment, 'failed');
  worker.crashPoints.arm({ name: 'worker.given-up', action: { do: 'throw' } });
  await letTimePass();
  await worker.resolve();
  assert.equal((await rowOf(payment)).state, 'pending');
  await letTimePass();
  assert.equal(await worker.resolve(), 1);
  const { state, failure_code: code } = await rowOf(payment);
  assert.deepEqual([state, code], ['failed', 'payment_intent_authentication_failure']);
});

test('an intent that somebody cancels at the provider before it held anything is told of no hold', async (context) => {
  const { work, append, letTimePass, rowOf, ask, told } = await aCharging(context);
  const worker = work();
  const payment = aPayment({ paymentMethod: authenticates, captureMethod: 'manual' });
  await append(recordOf(payment));
  await worker.allCommitted();
  const cancelled = await ask(payment, 'cancel', { cancellation_reason: 'requested_by_customer' });
  assert.equal(cancelled.status, 200, cancelled.text);
  await letTimePass();
  assert.equal(await worker.resolve(), 1);
  const { state, failure_code: code } = await rowOf(payment);
  assert.deepEqual([state, code], ['failed', 'payment_canceled']);
  assert.deepEqual(await told(), ['payment.requires_action', 'payment.failed']);
});

test('a customer has a day from the confirmation by the ledger’s clock, whatever a worker’s says and however late it was posted', async (context) => {
  const { work, append, letTimePass, rowOf, authenticate, entries } = await aCharging(context);
  const worker = work();
  const acceptedAt = new Date(Date.now() - 25 * hourMs);
  const [paymentMethod, currency] = ['pm_usBankAccount_success', 'USD'];
  const acts = aPayment({ paymentMethod: authenticates, acceptedAt });
  const bank = aPayment({ paymentMethod, currency, acceptedAt });
  await stripe.control('PUT', '/settings', { settleAfterMs: hourMs });
  for (const each of [acts, bank]) await append(recordOf(each));
  await worker.allCommitted();
  const lookAgain = async () => {
    await letTimePass();
    await worker.resolve();
    return [(await rowOf(acts)).state, (await rowOf(bank)).state];
  };
  assert.deepEqual(await lookAgain(), ['pending', 'pending']);
  context.mock.timers.enable({ apis: ['Date'], now: Date.now() + 26 * hourMs });
  assert.deepEqual(await lookAgain(), ['pending', 'pending']);
  context.mock.timers.reset();
  await authenticate(acts, 'succeeded');
  assert.deepEqual(await lookAgain(), ['succeeded', 'pending']);
  assert.equal((await entries()).length, 1);
});

test('a customer who never acts is given up, and one who acts in that moment is charged or not by the provider’s word', async (context) => {
  const { work, append, letTimePass, rowOf, authenticate, entries } = await aCharging(context);
  const worker = work(0);
  const [leaves, acts] = Array.from({ length: 2 }, () =>
    aPayment({ paymentMethod: authenticates }),
  ) as [AcceptedPayment, AcceptedPayment];
  for (const each of [leaves, acts]) await append(recordOf(each));
  await worker.allCommitted();
  assert.deepEqual(
    [(await rowOf(leaves)).state, (await rowOf(acts)).state],
    ['pending', 'pending'],
  );
  await authenticate(acts, 'succeeded');
  await letTimePass();
  assert.equal(await worker.resolve(), 2);
  assert.equal((await rowOf(leaves)).failure_code, 'authentication_required');
  assert.equal((await rowOf(acts)).state, 'succeeded');
  assert.equal((await entries()).length, 1);
});

test('a hold that is seen after the customer’s time is let go, and was never told', async (context) => {
  const { work, append, letTimePass, rowOf, authenticate, owner } = await aCharging(context);
  const worker = work(0);
  const payment = aPayment({ paymentMethod: authenticates, captureMethod: 'manual' });
  await append(recordOf(payment));
  await worker.allCommitted();
  await authenticate(payment, 'succeeded');
  await letTimePass();
  assert.equal(await worker.resolve(), 1);
  const { state, failure_code: code } = await rowOf(payment);
  assert.deepEqual([state, code], ['failed', 'authentication_required']);
  const { held } = await stripe.control<{ held: object }>('GET', '/audit');
  assert.deepEqual(held, {});
  const told = await owner.query<{ type: string }>(
    'SELECT event_type AS type FROM ledger.outbox ORDER BY sequence',
  );
  const types = told.map(({ type }) => type);
  assert.deepEqual(types, ['payment.requires_action', 'payment.failed']);
});

test('a customer who acted in time and is seen after it, as after an outage, is not let go', async (context) => {
  const { work, append, letTimePass, rowOf, authenticate, owner } = await aCharging(context);
  const worker = work(0);
  const payment = aPayment({ paymentMethod: authenticates, captureMethod: 'manual' });
  await append(recordOf(payment));
  await worker.allCommitted();
  await stripe.control('POST', '/clock', { offsetMs: -hourMs });
  await authenticate(payment, 'succeeded');
  await letTimePass();
  await worker.resolve();
  assert.equal((await rowOf(payment)).state, 'pending');
  const [held] = await owner.query<{ type: string; days: number }>(`
    SELECT event_type AS type, extract(day FROM hold_expires_at - now())::int AS days
    FROM ledger.outbox JOIN ledger.transactions USING (txn_id)
    ORDER BY outbox.sequence DESC LIMIT 1`);
  assert.deepEqual(held, { type: 'payment.authorized', days: 6 });
  assert.notDeepEqual((await stripe.control<{ held: object }>('GET', '/audit')).held, {});
});

test('whoever gives a customer up looks once more after the time is over', async (context) => {
  const { work, append, letTimePass, rowOf, authenticate } = await aCharging(context);
  const provider = aProvider(stripe);
  const payment = aPayment({ paymentMethod: authenticates, captureMethod: 'manual' });
  await append(recordOf(payment));
  const worker = work(0);
  await worker.allCommitted();
  await stripe.control('POST', '/clock', { offsetMs: -hourMs });
  let reads = 0;
  const acts: typeof provider = {
    ...provider,
    readIntent: async (asked) => {
      const seen = await provider.readIntent(asked);
      reads += 1;
      if (reads === 1) await authenticate(payment, 'succeeded');
      return seen;
    },
  };
  await letTimePass();
  const row = (await worker.ledger.find(payment.txnId))!;
  const ended = await chargePayment(
    { ...worker, providers: providersWith({ stripe: acts }) },
    { payment: row, traceparent },
  );
  assert.deepEqual([ended, reads], [{ outcome: 'waiting' }, 2]);
  assert.equal((await rowOf(payment)).state, 'pending');
  assert.notDeepEqual((await stripe.control<{ held: object }>('GET', '/audit')).held, {});
});

test('what was held and let go before the ledger noted either ends canceled, by its cancellation if there is one', async (context) => {
  const { work, append, letTimePass, rowOf, authenticate, owner } = await aCharging(context);
  const worker = work();
  const payments = Array.from({ length: 2 }, () =>
    aPayment({ paymentMethod: authenticates, captureMethod: 'manual' }),
  );
  for (const payment of payments) {
    await append(recordOf(payment));
    await worker.allCommitted();
    // As a restore leaves it: the row does not know what its intent went through.
    await authenticate(payment, 'succeeded');
    const { intent } = await rowOf(payment);
    const answer = await fetch(`${stripe.url}/v1/payment_intents/${intent}/cancel`, {
      method: 'POST',
      headers: { authorization: `Bearer ${stripe.apiKey}` },
      body: new URLSearchParams({ cancellation_reason: 'requested_by_customer' }),
    });
    assert.equal(answer.status, 200, await answer.text());
  }
  const cancellation = aRefund(payments[0]!, { kind: 'cancellation' });
  await append(refundRecordOf(cancellation));
  await worker.allCommitted();
  await eventually(async () => {
    await letTimePass();
    await worker.resolve();
    // What was noted has woken the cancellation, long before the payment is looked at again.
    await worker.resolve();
    for (const payment of payments) {
      const { state, failure_code: code } = await rowOf(payment);
      assert.deepEqual([state, code], ['canceled', 'payment_canceled']);
    }
    const [row] = await owner.query<{ state: string }>(
      'SELECT state FROM ledger.transactions WHERE txn_id = $1',
      [cancellation.txnId],
    );
    assert.equal(row?.state, 'succeeded');
    return true;
  });
});

test('a customer who gives up ends the payment at once, with the reason', async (context) => {
  const { work, append, letTimePass, rowOf, authenticate, entries } = await aCharging(context);
  const worker = work();
  const payment = aPayment({ paymentMethod: authenticates });
  await append(recordOf(payment));
  await worker.allCommitted();
  await authenticate(payment, 'failed');
  await letTimePass();
  assert.equal(await worker.resolve(), 1);
  assert.equal((await rowOf(payment)).failure_code, 'payment_intent_authentication_failure');
  assert.deepEqual(await entries(), []);
});

for (const returnUrl of [undefined, 'https://shop.example/done?order=1']) {
  const way = returnUrl === undefined ? 'without a way back' : 'who is sent elsewhere';
  test(`what a customer ${way} has to do is on the row for its gateway alone, and is erased when it is final`, async (context) => {
    const { work, append, letTimePass, rowOf, authenticate } = await aCharging(context);
    const worker = work();
    const back = returnUrl === undefined ? {} : { returnUrl };
    const payment = aPayment({ paymentMethod: authenticates, ...back });
    await append(recordOf(payment));
    await worker.allCommitted();
    const { intent, next_action: sealed } = await rowOf(payment);
    const headers = { authorization: `Bearer ${stripe.apiKey}` };
    const answer = await fetch(`${stripe.url}/v1/payment_intents/${intent}`, { headers });
    const { client_secret, next_action } = (await answer.json()) as {
      client_secret: string;
      next_action: object;
    };
    assert.doesNotMatch(sealed!, /secret|http|redirect/);
    const opened = worker.actionKeys.open(
      `action/${payment.txnId}`,
      JSON.parse(sealed!) as SealedText,
    );
    const { use_stripe_sdk: _, ...told } = next_action as Record<string, unknown>;
    assert.deepEqual(JSON.parse(opened), { ...told, client_secret });
    const isSent = 'redirect_to_url' in told;
    assert.equal(isSent, returnUrl !== undefined);
    await authenticate(payment, 'succeeded');
    await letTimePass();
    await worker.resolve();
    const row = await rowOf(payment);
    assert.deepEqual([row.state, row.next_action], ['succeeded', null]);
  });
}
