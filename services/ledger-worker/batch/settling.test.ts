import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aPayment, aRefund, createTestStripe, eventually } from '@triplock/testing';
import type { RecordBatch } from '@triplock/transport';
import {
  aPipeline,
  aProvider,
  closedWayTo,
  ledgerCounts,
  outcomesOf,
  recordOf,
  refundRecordOf,
} from '../test/pipeline.ts';
import { settleBatch } from './settling.ts';
import type { Worker } from '../worker.ts';

const once = { rows: 3, entries: 3, events: 3 };

test('a worker that fails between the ledger’s commit and the offset’s finds its payments recorded', async (context) => {
  const { work, owner, append } = await aPipeline(context);
  const worker = work();
  worker.crashPoints.arm({ name: 'worker.committed', action: { do: 'throw' } });
  await Promise.all([1, 2, 3].map(() => append(recordOf(aPayment()))));
  await worker.allCommitted();
  assert.deepEqual(worker.crashPoints.hits(), { 'worker.committed': 1 });
  assert.deepEqual(await ledgerCounts(owner), once);
  const { posted, ...others } = outcomesOf(worker);
  assert.ok(Number(others['already-recorded']) >= 1, `posted ${posted}`);
});

test('a worker that fails after a dead letter makes it again and loses nothing', async (context) => {
  const { work, owner, append, deadLetters } = await aPipeline(context);
  const worker = work();
  worker.crashPoints.arm({ name: 'worker.dead-lettered', action: { do: 'throw' } });
  await append({ key: 'k', value: Buffer.from('poison'), headers: {} });
  await Promise.all([1, 2, 3].map(() => append(recordOf(aPayment()))));
  await worker.allCommitted();
  await eventually(async () => deadLetters.length === 2);
  assert.deepEqual(await ledgerCounts(owner), once);
});

test('a worker that fails right after its offset was committed goes on', async (context) => {
  const { work, owner, append } = await aPipeline(context);
  const worker = work();
  worker.crashPoints.arm({ name: 'worker.offset-committed', action: { do: 'throw' } });
  await append(recordOf(aPayment()));
  await eventually(async () => worker.crashPoints.hits()['worker.offset-committed'] === 1);
  await Promise.all([1, 2].map(() => append(recordOf(aPayment()))));
  await worker.allCommitted();
  assert.deepEqual(await ledgerCounts(owner), once);
});

test('while the ledger is away nothing is committed or dead-lettered, and then all is posted once', async (context) => {
  const { work, store, owner, append, deadLetters } = await aPipeline(context);
  const url = new URL(store.url('triplock_ledger'));
  const way = await closedWayTo(context, { host: url.hostname, port: Number(url.port) });
  url.port = String(way.port);
  const worker = work({ databaseUrl: url.href });
  await append({ key: 'k', value: Buffer.from('poison'), headers: {} });
  await Promise.all([1, 2, 3].map(() => append(recordOf(aPayment()))));
  await eventually(async () => (await statements(worker)) >= 3);
  assert.equal((await worker.offsets.committed()).get(0), 0n);
  assert.deepEqual(deadLetters, []);
  await way.open();
  await worker.allCommitted();
  await eventually(async () => deadLetters.length === 1);
  assert.deepEqual(await ledgerCounts(owner), once);
});

test('while a slow transaction holds up every connection of the pool nothing is given up, and then all is posted once', async (context) => {
  const { work, store, owner, append, deadLetters } = await aPipeline(context);
  const worker = work();
  const observer = store.open();
  const waiting = async () => {
    const [{ count } = { count: 0 }] = await observer.query<{ count: number }>(`
      SELECT count(*)::int AS count FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`);
    return count;
  };
  const { asked } = await owner.transaction(async (slow) => {
    await slow.query('LOCK TABLE ledger.transactions IN ACCESS EXCLUSIVE MODE');
    const asking = Array.from({ length: 20 }, () => worker.ledger.find(aPayment().txnId));
    const asked = Promise.allSettled(asking);
    await eventually(async () => (await waiting()) === 8);
    await Promise.all([1, 2, 3].map(() => append(recordOf(aPayment()))));
    await eventually(async () => (await statements(worker)) >= 2);
    assert.equal((await worker.offsets.committed()).get(0), 0n);
    return { asked };
  });
  const refused = (await asked).filter(({ status }) => status === 'rejected');
  assert.ok(refused.length >= 12, `only ${refused.length} found no connection`);
  await worker.allCommitted();
  assert.deepEqual(deadLetters, []);
  assert.deepEqual(await ledgerCounts(owner), once);
});

/** How often a worker tried to post. */
async function statements({ metrics }: Pick<Worker, 'metrics'>): Promise<number> {
  const { values } = await metrics.statementRows.get();
  return values.find(({ metricName }) => metricName?.endsWith('_count'))?.value ?? 0;
}

test('a batch ends only once its dead letters are durable', async (context) => {
  const { work } = await aPipeline(context);
  const { worker } = work();
  const batch: RecordBatch = {
    partition: 0,
    records: [
      {
        topic: 't',
        partition: 0,
        offset: 0n,
        timestamp: '0',
        headers: {},
        key: Buffer.from('k'),
        value: Buffer.from('poison'),
      },
    ],
    from: 0n,
    next: 1n,
    end: 1n,
    heartbeat: async () => undefined,
    isStale: () => false,
  };
  const append = () => Promise.reject(new Error('the brokers are away'));
  const deadLetters = { ...worker.deadLetters, append };
  await assert.rejects(settleBatch({ ...worker, deadLetters }, batch), /the brokers are away/);
});

test('a worker whose partition was taken away posts nothing more', async (context) => {
  const { work, owner } = await aPipeline(context);
  const { worker: idle } = work();
  const { value, headers, key } = recordOf(aPayment());
  const record = {
    topic: 't',
    partition: 0,
    offset: 0n,
    key: Buffer.from(key),
    value,
    timestamp: '0',
  };
  const bytes = Object.entries(headers).map(([name, text]) => [name, Buffer.from(text)] as const);
  const batch: RecordBatch = {
    partition: 0,
    records: [{ ...record, headers: Object.fromEntries(bytes) }],
    from: 0n,
    next: 1n,
    end: 1n,
    heartbeat: () => Promise.reject(new Error('another member has it')),
    isStale: () => true,
  };
  const deadLetters = { ...idle.deadLetters, append: () => assert.fail('dead-lettered') };
  await assert.rejects(settleBatch({ ...idle, deadLetters }, batch), /another member has it/);
  assert.deepEqual(await ledgerCounts(owner), { rows: 0, entries: 0, events: 0 });
});

test('a ledger that was set back by more than a day charges no card again and gives nothing back again', async (context) => {
  const stripe = await createTestStripe(context);
  const { work, owner, append } = await aPipeline(context);
  const aWorker = () => work({ provider: aProvider(stripe, { timeoutMs: 5_000 }) });
  const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000);
  const charged = aPayment({
    amount: 1_000n,
    paymentMethod: 'pm_card_visa',
    acceptedAt: hoursAgo(30),
  });
  const declined = aPayment({
    amount: 1_000n,
    paymentMethod: 'pm_card_chargeDeclined',
    acceptedAt: hoursAgo(30),
  });
  const refund = aRefund(charged, { amount: 400n, acceptedAt: hoursAgo(29) });
  await stripe.control('POST', '/clock', { offsetMs: -30 * 3_600_000 });
  for (const each of [charged, declined]) await append(recordOf(each));
  await aWorker().allCommitted();
  await append(refundRecordOf(refund));
  await aWorker().allCommitted();
  const rows = () =>
    owner.query(`
      SELECT txn_id, state, failure_code, provider_intent_id, provider_charge_id, provider_refund_id
      FROM ledger.transactions ORDER BY txn_id`);
  const before = await rows();
  const wanted = {
    charges: { eur: { count: 1, amount: 1_000 } },
    refunds: { eur: { count: 1, amount: 400 } },
  };
  const provided = async () => {
    type Audit = typeof wanted & { paymentIntents: Record<string, number> };
    const { charges, refunds, paymentIntents } = await stripe.control<Audit>('GET', '/audit');
    return { charges, refunds, intents: paymentIntents };
  };
  const intents = { canceled: 1, succeeded: 1 };
  assert.deepEqual(await provided(), { ...wanted, intents });

  // The provider has forgotten every key by now.
  await stripe.control('POST', '/clock', { offsetMs: 0 });
  await owner.transaction(async (transaction) => {
    await transaction.query('SET LOCAL session_replication_role = replica');
    await transaction.query('TRUNCATE ledger.transactions, ledger.entries, ledger.outbox CASCADE');
  });
  await aWorker().allCommitted();
  assert.deepEqual(await provided(), { ...wanted, intents });
  assert.deepEqual(await rows(), before);
});
