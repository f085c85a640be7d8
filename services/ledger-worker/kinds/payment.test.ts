import assert from 'node:assert/strict';
import { after, before, suite, test, type TestContext } from 'node:test';
import type { AcceptedPayment } from '@triplock/payments';
import type { CircuitBreaker } from '@triplock/provider';
import { aPayment, createTestStripe, eventually, type TestStripe } from '@triplock/testing';
import {
  aPipeline,
  aProvider,
  outcomesOf,
  recordOf,
  stepByStep,
  traceparent,
} from '../test/pipeline.ts';

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

const aCard = (paymentMethod = 'pm_card_visa') => aPayment({ amount: 1_250n, paymentMethod });

type ProviderAudit = {
  charges: Record<string, { count: number; amount: number }>;
  sharedMetadata: unknown[];
  paymentIntents: Record<string, number>;
};

/** A worker that charges at a simulator which has forgotten what the tests before did. */
async function aCharging(context: TestContext) {
  await stripe.control('POST', '/clock', { offsetMs: 0 });
  await stripe.control('POST', '/reset');
  const pipeline = await aPipeline(context);
  const ofTests = aProvider(stripe);
  const work = (handOverMs = 10_000, provider = ofTests) => pipeline.work({ provider, handOverMs });
  const rowOf = async ({ txnId }: AcceptedPayment) => {
    const [row] = await pipeline.owner.query<{
      state: string;
      failure_code: string | null;
      provider_intent_id: string | null;
      provider_charge_id: string | null;
      authorized_at: Date | null;
    }>('SELECT * FROM ledger.transactions WHERE txn_id = $1', [txnId]);
    return row;
  };
  const letTimePass = () =>
    pipeline.owner.query(`
      UPDATE ledger.transactions SET due_at = now(), version = version + 1
      WHERE state = 'pending'`);
  const strike = (fault: object) => stripe.control('POST', '/faults', fault);
  const provided = () => stripe.control<ProviderAudit>('GET', '/audit?metadata_key=txn_id');
  /** The ledger and the provider have this one charge, and of no other. */
  const chargedOnce = async (payment: AcceptedPayment) => {
    const row = await rowOf(payment);
    assert.equal(row?.state, 'succeeded');
    assert.match(row.provider_charge_id!, /^ch_/);
    const { charges, sharedMetadata } = await provided();
    assert.deepEqual(charges['eur'], { count: 1, amount: 1_250 });
    assert.deepEqual(sharedMetadata, []);
    const [counts] = await pipeline.owner.query<{ entries: number; events: number }>(`
      SELECT (SELECT count(*) FROM ledger.entries)::int AS entries,
             (SELECT count(*) FROM ledger.outbox)::int AS events`);
    assert.deepEqual(counts, { entries: 1, events: 1 });
  };
  /** Nothing but time makes a payment older: what guards its row does not let it be changed. */
  const makeOlder = async (age: string) => {
    await pipeline.owner.query('ALTER TABLE ledger.transactions DISABLE TRIGGER USER');
    await pipeline.owner.query(`
      UPDATE ledger.transactions
      SET created_at = now() - interval '${age}', due_at = now(), version = version + 1`);
  };
  return { ...pipeline, work, rowOf, letTimePass, makeOlder, strike, provided, chargedOnce };
}

test('a card payment is charged and settled, with its charge on the row', async (context) => {
  const { work, append, chargedOnce } = await aCharging(context);
  const worker = work();
  const payment = aCard();
  await append(recordOf(payment));
  await worker.allCommitted();
  await chargedOnce(payment);
  assert.deepEqual(outcomesOf(worker), { charged: 1 });
});

test('a declined card ends its payment as failed, with the bank’s reason, and moves no money', async (context) => {
  const { work, append, rowOf, owner, provided } = await aCharging(context);
  const worker = work();
  const declined = aCard('pm_card_chargeDeclinedInsufficientFunds');
  const unknown = aCard('pm_nobody');
  await Promise.all([declined, unknown].map((each) => append(recordOf(each))));
  await worker.allCommitted();
  assert.equal((await rowOf(declined))?.failure_code, 'insufficient_funds');
  assert.equal((await rowOf(unknown))?.failure_code, 'resource_missing');
  assert.deepEqual(await owner.query('SELECT FROM ledger.entries'), []);
  const { charges, paymentIntents } = await provided();
  assert.deepEqual(charges, {});
  assert.deepEqual(paymentIntents, { canceled: 1 });
});

test('an end that the ledger refuses holds back no other payment, raises an alarm, and is settled once mended', async (context) => {
  const { work, append, rowOf, letTimePass } = await aCharging(context);
  let message = 'half an answer: \0';
  const provider = {
    ...stepByStep(aProvider(stripe)),
    confirmIntent: async () => ({
      outcome: 'declined' as const,
      failure: { code: 'card_declined', message },
    }),
    readIntent: async () => ({ outcome: 'unconfirmed' as const }),
  };
  const worker = work(10_000, provider);
  const [refused, next] = [aCard(), aPayment()];
  for (const payment of [refused, next]) await append(recordOf(payment));
  await worker.allCommitted();
  assert.deepEqual(outcomesOf(worker), { 'handed-over': 1, posted: 1 });
  assert.equal((await rowOf(refused))?.state, 'pending');

  await letTimePass();
  assert.equal(await worker.resolve(), 0);
  assert.equal(worker.metrics.resolved.counted().stuck, 1);
  assert.equal(worker.metrics.stuck.counted().unstorable, 2);

  message = 'an answer';
  await letTimePass();
  assert.equal(await worker.resolve(), 1);
  assert.equal((await rowOf(refused))?.state, 'failed');
});

test('the same record again, and a topic read from its beginning, charge nobody again', async (context) => {
  const { work, append, chargedOnce } = await aCharging(context);
  const [first, payment] = [work(), aCard()];
  for (let n = 0; n < 3; n += 1) await append(recordOf(payment));
  await first.allCommitted();
  await work().allCommitted();
  await chargedOnce(payment);
});

const ways = {
  'in one call': {
    crashes: ['charged', 'settled'],
    at: (provider: CircuitBreaker) => provider,
    operation: 'payment_intents.create',
  },
  'step by step': {
    crashes: ['intent-created', 'intent-stored', 'charged', 'settled'],
    at: stepByStep,
    operation: 'payment_intents.confirm',
  },
} as const;
const crashes = Object.entries(ways).flatMap(([way, { crashes: each, at }]) =>
  each.map((crash) => ({ way, at, name: `worker.${crash}` as const })),
);
suite('a worker that fails between two steps of a charge finds it as it left it', () => {
  for (const { way, at, name } of crashes) {
    test(`${way}, after ${name}`, async (context) => {
      const { work, append, chargedOnce } = await aCharging(context);
      const worker = work(10_000, at(aProvider(stripe)));
      worker.crashPoints.arm({ name, action: { do: 'throw' } });
      const payment = aCard();
      await append(recordOf(payment));
      await worker.allCommitted();
      assert.deepEqual(worker.crashPoints.hits(), { [name]: 1 });
      await chargedOnce(payment);
    });
  }
});

suite('what the provider does not answer in time is looked up, and nobody is charged again', () => {
  const faults = [
    ['charged, then timed out', { fault: 'time-out', delayMs: 3_000 }],
    ['charged, then reset', { fault: 'reset-after' }],
    ['charged, then half an answer', { fault: 'half-body' }],
    ['a 500 that is kept, without effect', { fault: 'error' }],
    ['a 500 that is kept, after the charge', { fault: 'error-after' }],
    ['a rate limit', { fault: 'rate-limit', retryAfterSeconds: 1 }],
    ['a reset before anything happened', { fault: 'reset' }],
  ] as const;
  const all = Object.entries(ways).flatMap(([way, { at, operation }]) =>
    faults.map(([what, fault]) => ({
      name: `${way}: ${what}`,
      at,
      strikes: { ...fault, operation },
    })),
  );
  for (const { name, at, strikes } of all) {
    test(name, async (context) => {
      const { work, append, strike, letTimePass, chargedOnce, rowOf } = await aCharging(context);
      const worker = work(10_000, at(aProvider(stripe)));
      await strike({ ...strikes, count: 2 });
      const payment = aCard();
      await append(recordOf(payment));
      await worker.allCommitted();
      await eventually(async () => {
        await letTimePass();
        await worker.resolve();
        return (await rowOf(payment))?.state === 'succeeded';
      });
      await chargedOnce(payment);
      const struck = await stripe.control<{ faults: { hits: number }[] }>('GET', '/faults');
      assert.ok(struck.faults[0]!.hits >= 1);
    });
  }
});

test('a 500 that the provider keeps holds up no batch and is passed by a second later, by nobody else', async (context) => {
  const { work, append, strike, rowOf, chargedOnce } = await aCharging(context);
  const worker = work(10_000, stepByStep(aProvider(stripe)));
  await strike({ fault: 'error', operation: 'payment_intents.confirm', count: 1 });
  const payment = aCard();
  await append(recordOf(payment));
  await worker.allCommitted();
  assert.deepEqual(outcomesOf(worker), { 'handed-over': 1 });
  await eventually(async () => (await rowOf(payment))?.state === 'succeeded');
  await chargedOnce(payment);
});

test('what another version confirmed by other parameters under the same key is seen on the intent', async (context) => {
  const { work, append, rowOf } = await aCharging(context);
  const provider = stepByStep(aProvider(stripe));
  const refused: unknown[] = [];
  const confirmIntent: typeof provider.confirmIntent = async ({ captureMethod, ...request }) => {
    await provider.confirmIntent(request);
    const answer = await provider.confirmIntent({ ...request, captureMethod });
    refused.push(answer.outcome);
    return answer;
  };
  const worker = work(10_000, { ...provider, confirmIntent });
  const held = { captureMethod: 'manual', paymentMethod: 'pm_card_visa' } as const;
  const payment = aPayment({ amount: 1_250n, ...held });
  await append(recordOf(payment));
  await worker.allCommitted();
  await eventually(async () => (await rowOf(payment))?.authorized_at != null);
  assert.deepEqual(refused, ['unknown']);
});

test('what another version charged by other parameters under the same key is found, and charged once', async (context) => {
  const { work, append, rowOf, chargedOnce } = await aCharging(context);
  const provider = aProvider(stripe);
  const answers: object[] = [];
  const charge: typeof provider.charge = async (request) => {
    const others = { ...request, returnUrl: 'https://shop.example/' };
    if (answers.length === 0) await provider.charge!(others);
    const answer = await provider.charge!(request);
    answers.push(answer);
    return answer;
  };
  const worker = work(10_000, { ...provider, charge });
  const payment = aCard();
  await append(recordOf(payment));
  await worker.allCommitted();
  await eventually(async () => (await rowOf(payment))?.state === 'succeeded');
  await chargedOnce(payment);
  assert.equal(answers.length, 1);
});

test('a worker that slept for 25 hours between storing an intent and confirming it charges once', async (context) => {
  const { work, append, letTimePass, chargedOnce, rowOf } = await aCharging(context);
  const worker = work(10_000, stepByStep(aProvider(stripe)));
  const payment = aCard();
  const name = 'worker.intent-stored';
  worker.crashPoints.arm({ name, action: { do: 'pause', pauseMs: 3_000 } });
  await append(recordOf(payment));
  await eventually(async () => (await rowOf(payment))?.provider_intent_id != null);
  await letTimePass();
  assert.equal(await worker.resolve(), 1);
  // No key is remembered any more when the sleeper wakes: only the intent is left to refuse it.
  await stripe.control('POST', '/clock', { advanceMs: 25 * 3_600_000 });
  await worker.allCommitted();
  await chargedOnce(payment);
});

/** A payment whose row is due again while its worker sleeps over the intent that it made. */
async function aSleeper(context: TestContext) {
  const charging = await aCharging(context);
  const worker = charging.work(10_000, stepByStep(aProvider(stripe)));
  const payment = aCard();
  const name = 'worker.intent-created';
  worker.crashPoints.arm({ name, action: { do: 'pause', pauseMs: 3_000 } });
  await charging.append(recordOf(payment));
  await eventually(async () => worker.crashPoints.hits()[name] === 1);
  await charging.letTimePass();
  return { ...charging, worker, payment };
}

test('an intent that came too late to be stored stays for whoever gets it next under its key', async (context) => {
  const { worker, payment, strike, rowOf, letTimePass, chargedOnce } = await aSleeper(context);
  await strike({ fault: 'unavailable', operation: 'payment_intents.create', count: 1 });
  await worker.resolve();
  assert.equal((await rowOf(payment))?.provider_intent_id, null);
  await worker.allCommitted();
  assert.equal((await rowOf(payment))?.state, 'pending');
  await letTimePass();
  assert.equal(await worker.resolve(), 1);
  await chargedOnce(payment);
});

test('an intent that came too late is cancelled where another one is stored, and where none is needed', async (context) => {
  const { worker, payment, provided, chargedOnce } = await aSleeper(context);
  // The same key now gives another intent.
  await stripe.control('POST', '/clock', { advanceMs: 25 * 3_600_000 });
  assert.equal(await worker.resolve(), 1);
  await worker.allCommitted();
  await chargedOnce(payment);
  assert.deepEqual((await provided()).paymentIntents, { succeeded: 1, canceled: 1 });
  const failed = await aSleeper(context);
  const { txnId, version } = (await failed.worker.ledger.find(failed.payment.txnId))!;
  const result = { state: 'failed' as const, failure: { code: 'refused', message: 'refused' } };
  const end = { txnId, version, result, traceparent, settledAt: new Date() };
  assert.deepEqual(await failed.worker.ledger.settle(end), { outcome: 'settled' });
  await failed.worker.allCommitted();
  assert.deepEqual((await failed.provided()).paymentIntents, { canceled: 1 });
});

test('an intent that somebody else stored is not cancelled by whoever made it too', async (context) => {
  const { worker, payment, chargedOnce } = await aSleeper(context);
  const name = 'worker.intent-stored';
  // Until the sleeper has seen that it is stored.
  worker.crashPoints.arm({ name, action: { do: 'pause', pauseMs: 6_000 } });
  const resolved = worker.resolve();
  await worker.allCommitted();
  assert.equal(await resolved, 1);
  await chargedOnce(payment);
});

test('a card that succeeds is one call at its provider, and a declined one two', async (context) => {
  const { work, append, rowOf } = await aCharging(context);
  const asked: string[] = [];
  const provider = aProvider(stripe, { onCall: (call) => asked.push(call) });
  const worker = work(10_000, provider);
  const card = aCard();
  await append(recordOf(card));
  await eventually(async () => (await rowOf(card))?.state === 'succeeded');
  assert.deepEqual(asked.splice(0), ['charge']);
  const declined = aCard('pm_card_chargeDeclined');
  await append(recordOf(declined));
  await eventually(async () => (await rowOf(declined))?.state === 'failed');
  assert.deepEqual(asked, ['charge', 'cancelIntent']);
  await worker.allCommitted();
});

/** A payment whose one call `fault` befell so many hours ago, while its row is new. */
async function anUnknownCharge(context: TestContext, fault: string, hoursAgo = 0) {
  const charging = await aCharging(context);
  await stripe.control('POST', '/clock', { offsetMs: -hoursAgo * 3_600_000 });
  const { work, append, strike, rowOf } = charging;
  const worker = work();
  await strike({ fault, operation: 'payment_intents.create', count: 1 });
  const payment = aCard();
  await append(recordOf(payment));
  await worker.allCommitted();
  assert.equal((await rowOf(payment))?.provider_intent_id, null);
  await stripe.control('POST', '/clock', { offsetMs: 0 });
  return { ...charging, worker, payment };
}

test('what was charged by a call of which nobody knows is found after half a day, and charged by no other', async (context) => {
  const { worker, payment, makeOlder, chargedOnce } = await anUnknownCharge(context, 'half-body');
  await makeOlder('13 hours 5 minutes');
  assert.equal(await worker.resolve(), 1);
  await chargedOnce(payment);
});

test('what was charged by a call whose key is forgotten is found, and charged by no other', async (context) => {
  const unknown = await anUnknownCharge(context, 'half-body', 25);
  const { worker, payment, makeOlder, chargedOnce } = unknown;
  await makeOlder('25 hours');
  assert.equal(await worker.resolve(), 1);
  await chargedOnce(payment);
});

test('a call that is kept as an error gives way to another half a day later', async (context) => {
  const { worker, payment, makeOlder, chargedOnce } = await anUnknownCharge(context, 'error');
  await makeOlder('12 hours 30 minutes');
  await worker.resolve();
  await chargedOnce(payment);
});

test('a backlog of half a day is charged without a look, each once', async (context) => {
  const { work, append, rowOf, provided } = await aCharging(context);
  const asked: string[] = [];
  const worker = work(10_000, aProvider(stripe, { onCall: (call) => asked.push(call) }));
  const acceptedAt = new Date(Date.now() - 12.5 * 3_600_000);
  const payments = Array.from({ length: 20 }, () => ({ ...aCard(), acceptedAt }));
  await Promise.all(payments.map((each) => append(recordOf(each))));
  await worker.allCommitted();
  for (const each of payments) {
    await eventually(async () => (await rowOf(each))?.state === 'succeeded');
  }
  assert.equal((await provided()).charges['eur']?.count, 20);
  assert.deepEqual([...new Set(asked)].toSorted(), ['confirmIntent', 'createIntent']);
  assert.equal(asked.length, 40);
});

test('a worker that stood still between looking at its clock and charging charges nobody again', async (context) => {
  const { work, append, makeOlder, chargedOnce } = await aCharging(context);
  const provider = aProvider(stripe);
  const [looked, sends] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const charge: typeof provider.charge = async (request) => {
    looked.resolve();
    await sends.promise;
    return provider.charge!(request);
  };
  const sleeper = work(20_000, { ...provider, charge });
  const payment = aCard();
  await append(recordOf(payment));
  await looked.promise;
  await makeOlder('13 hours 5 minutes');
  await work().allCommitted();
  sends.resolve();
  await sleeper.allCommitted();
  await chargedOnce(payment);
});

test('two workers that charge one payment at once charge it once, and leave no intent to confirm', async (context) => {
  const { work, append, chargedOnce, provided, letTimePass } = await aCharging(context);
  const payment = aCard();
  await append(recordOf(payment));
  const workers = [work(), work()];
  await Promise.all(workers.map((worker) => worker.allCommitted()));
  await letTimePass();
  await workers[0]!.resolve();
  await chargedOnce(payment);
  const { requires_confirmation: open = 0 } = (await provided()).paymentIntents;
  assert.equal(open, 0);
});

test('a slow card holds up neither its partition nor the payments behind it', async (context) => {
  const { work, append, rowOf, strike, letTimePass } = await aCharging(context);
  const worker = work(100);
  const timeOuts = { fault: 'time-out', count: 4, delayMs: 5_000 };
  await strike({ ...timeOuts, operation: 'payment_intents.create' });
  const [slow, behind] = [aCard(), aPayment()];
  await append(recordOf(slow));
  await append(recordOf(behind));
  await worker.allCommitted();
  assert.equal((await rowOf(behind))?.state, 'succeeded');
  assert.deepEqual(outcomesOf(worker), { posted: 1, 'handed-over': 1 });
  await eventually(async () => {
    await letTimePass();
    await worker.resolve();
    return (await rowOf(slow))?.state === 'succeeded';
  });
});
