import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import type { CircuitBreaker, Provider } from '@triplock/provider';
import { openStripe } from '@triplock/provider-stripe';
import {
  aPayment,
  aRefund,
  createTestStripe,
  eventually,
  type TestStripe,
} from '@triplock/testing';
import { aPipeline, aProvider, recordOf, traceparent } from './test/pipeline.ts';

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

const slotsMax = 4;
const aCard = () => aPayment({ amount: 1_250n, paymentMethod: 'pm_card_visa' });

/** A worker with few slots, whose calls to the provider are counted. */
async function aBusyWorker(context: TestContext, patience = { timeoutMs: 1_000 }) {
  await stripe.control('POST', '/reset');
  const pipeline = await aPipeline(context);
  const { provider, atOnce } = counted(aProvider(stripe, patience));
  const worker = pipeline.work({ provider, slotsMax, handOverMs: 100 });
  const { owner } = pipeline;
  const due = async (rows: number) => {
    const posted = Array.from({ length: rows }, () => {
      return { payment: aCard(), traceparent, provider: 'stripe' };
    });
    await worker.ledger.post(posted);
    await owner.query(`
      UPDATE ledger.transactions SET due_at = now(), version = version + 1
      WHERE state = 'pending'`);
  };
  const settled = async () => {
    const [row] = await owner.query<{ settled: number }>(
      `SELECT count(*)::int AS settled FROM ledger.transactions WHERE state = 'succeeded'`,
    );
    return row!.settled;
  };
  const begin = worker.resolverOnce;
  return { ...pipeline, ...worker, begin, due, settled, atOnce };
}

/** The same provider, and how many charges were made or confirmed at one time at most. */
function counted(provider: CircuitBreaker) {
  let now = 0;
  const atOnce = { most: 0 };
  const counting =
    <Request, Outcome>(call: (request: Request) => Promise<Outcome>) =>
    async (request: Request) => {
      now += 1;
      atOnce.most = Math.max(atOnce.most, now);
      try {
        return await call(request);
      } finally {
        now -= 1;
      }
    };
  const { charge, confirmIntent } = provider;
  const calls = { charge: counting(charge!), confirmIntent: counting(confirmIntent) };
  return { provider: { ...provider, ...calls }, atOnce };
}

test('a row that takes long keeps its own slot only, and the others are refilled as they end', async (context) => {
  // Whoever waited for the held row would wait for longer than this test may take.
  const patience = { timeoutMs: 80_000 };
  const { begin, due, settled, drain } = await aBusyWorker(context, patience);
  await due(20);
  const held = { fault: 'hold', operation: 'payment_intents.create', count: 1 };
  await stripe.control('POST', '/faults', held);
  let looks = 0;
  while ((await settled()) < 19) {
    await begin();
    looks += 1;
  }
  assert.ok(looks >= 19 / slotsMax, `${looks} looks`);
  assert.equal(await settled(), 19);
  await stripe.control('DELETE', '/faults');
  await drain();
  assert.equal(await settled(), 20);
});

test('batches and the resolver together have no more at the provider than there are slots', async (context) => {
  const { append, begin, due, settled, atOnce, allCommitted, drain } = await aBusyWorker(context, {
    timeoutMs: 80_000,
  });
  // Held, so that all slots are taken at some time, however busy the machine is.
  await stripe.control('POST', '/faults', { fault: 'hold', operation: 'payment_intents.create' });
  await due(12);
  await Promise.all(Array.from({ length: 12 }, () => append(recordOf(aCard()))));
  await eventually(async () => {
    await begin();
    return atOnce.most >= slotsMax;
  });
  await stripe.control('DELETE', '/faults');
  await eventually(async () => {
    await begin();
    return (await settled()) >= 12;
  });
  await allCommitted();
  await drain();
  assert.equal(atOnce.most, slotsMax);
});

test('while the provider is left alone no row is taken, and then one tries before all go on', async (context) => {
  const { begin, due, settled, drain, owner, resolve } = await aBusyWorker(context);
  const versions = () =>
    owner.query('SELECT txn_id, version FROM ledger.transactions ORDER BY txn_id');
  await stripe.control('POST', '/faults', { fault: 'unavailable' });
  await due(30);
  await eventually(async () => (await begin()) === 0);
  await drain();
  const left = await versions();
  assert.equal(await begin(), 0);
  assert.deepEqual(await versions(), left);
  // Ten in a row opened the circuit, and what was under way by then came back unknown as well.
  const touched = left.filter((row) => (row as { version: number }).version > 2);
  assert.ok(touched.length >= 10 && touched.length < 10 + slotsMax, `${touched.length} taken`);

  await stripe.control('DELETE', '/faults');
  await eventually(async () => {
    await owner.query(`
      UPDATE ledger.transactions SET due_at = now(), version = version + 1
      WHERE state = 'pending'`);
    await resolve();
    return (await settled()) === 30;
  });
});

/** Lets everything that is pending be due. */
const letTimePass = ({ owner }: { owner: { query(sql: string): Promise<unknown> } }) =>
  owner.query(`
    UPDATE ledger.transactions SET due_at = now(), version = version + 1
    WHERE state = 'pending'`);

test('while the provider is left alone the resolver goes on with what needs none', async (context) => {
  const { begin, drain, owner, due, ledger, followUps, settled } = await aBusyWorker(context);
  await stripe.control('POST', '/faults', { fault: 'unavailable' });
  await due(slotsMax * 4);
  await eventually(async () => (await begin()) === 0);
  await drain();
  // Posted by a worker that died before it settled them.
  const transfers = Array.from({ length: slotsMax * 2 }, () => aPayment());
  await ledger.post(transfers.map((payment) => ({ payment, traceparent })));
  const late = aRefund(transfers[0]!);
  const posted = await followUps.post({ followUp: late, traceparent, settledAt: new Date() });
  assert.deepEqual(posted, { outcome: 'waiting' });
  await letTimePass({ owner });
  while ((await begin()) > 0) await drain();
  await drain();
  // The refund goes on as soon as its payment is settled, and both without the provider.
  await eventually(async () => {
    await begin();
    await drain();
    return (await settled()) === transfers.length + 1;
  });
  assert.equal((await followUps.find(late.txnId))?.state, 'succeeded');
});

test('a row that cannot be read raises an alarm, holds up none of the others, and is finished once mended', async (context) => {
  const { due, resolve, settled, metrics, owner } = await aBusyWorker(context);
  await due(3);
  const write = (details: string | null) =>
    owner.transaction(async (tx) => {
      const table = 'ALTER TABLE ledger.transactions';
      await tx.query(`${table} DROP CONSTRAINT IF EXISTS transactions_details_check`);
      await tx.query(`${table} DISABLE TRIGGER transactions_change_forward`);
      await tx.query(
        `UPDATE ledger.transactions SET details = $1
         WHERE txn_id = (SELECT min(txn_id::text)::uuid FROM ledger.transactions)`,
        [details],
      );
      await tx.query(`${table} ENABLE TRIGGER transactions_change_forward`);
    });
  await write('no JSON');
  for (const looks of [1, 2]) {
    await resolve();
    assert.equal(await settled(), 2);
    assert.equal(metrics.stuck.counted().unreadable, looks);
    await letTimePass({ owner });
  }
  await write(null);
  await resolve();
  assert.equal(await settled(), 3);
});

test('a payment that the provider refuses for no fault of its own stays pending with an alarm, and is charged once mended', async (context) => {
  await stripe.control('POST', '/reset');
  const pipeline = await aPipeline(context);
  const { url: apiUrl } = stripe;
  let apiKey = 'a key that was revoked';
  // Each call by the key of its time, as after a restart with another one.
  const now = () => openStripe({ apiKey, apiUrl, timeoutMs: 5_000 });
  const calls: Pick<Provider, 'charge'> = {
    charge: (request) => now().charge!(request),
  };
  const provider = { ...aProvider(stripe), ...calls };
  const worker = pipeline.work({ provider, handOverMs: 100 });
  const payment = aCard();
  await worker.ledger.post([{ payment, traceparent, provider: 'stripe' }]);
  await letTimePass(pipeline);
  await worker.resolve();
  assert.equal(worker.metrics.stuck.counted().refused, 1);
  assert.equal((await worker.ledger.find(payment.txnId))?.state, 'pending');
  apiKey = stripe.apiKey;
  await letTimePass(pipeline);
  assert.equal(await worker.resolve(), 1);
  assert.equal((await worker.ledger.find(payment.txnId))?.state, 'succeeded');
});
