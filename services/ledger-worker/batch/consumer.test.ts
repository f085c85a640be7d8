import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPostgresLedger } from '@triplock/ledger';
import { createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, createTestTopic, eventually } from '@triplock/testing';
import { readTopicRetention, type ReceivedRecord, type TopicRetention } from '@triplock/transport';
import { checkRetention, meterLag } from './consumer.ts';
import { workerMetrics } from '../metrics.ts';
import {
  aPipeline,
  ledgerCounts,
  outcomesOf,
  recordOf,
  traceparent,
  type RawRecord,
} from '../test/pipeline.ts';

test('accepted payments are posted, settled and published as events, and their offsets committed', async (context) => {
  const { work, owner, append } = await aPipeline(context, { partitions: 3 });
  const payments = Array.from({ length: 60 }, () => aPayment());
  await Promise.all(payments.map((payment) => append(recordOf(payment))));
  const worker = work();
  await worker.allCommitted();
  assert.deepEqual(await ledgerCounts(owner), { rows: 60, entries: 60, events: 60 });
  for (const payment of payments) {
    const row = await worker.ledger.find(payment.txnId);
    assert.deepEqual([row?.state, row?.fingerprint], ['succeeded', payment.fingerprint]);
  }
  assert.deepEqual(outcomesOf(worker), { posted: 60 });
  await worker.consumer.ping();
});

test('the whole topic replayed from its beginning posts nothing new', async (context) => {
  const { work, owner, append, deadLetters } = await aPipeline(context, { partitions: 3 });
  await Promise.all(Array.from({ length: 60 }, () => append(recordOf(aPayment()))));
  await work().allCommitted();
  const before = await ledgerCounts(owner);
  const replay = work();
  await replay.allCommitted();
  assert.deepEqual(outcomesOf(replay), { 'already-recorded': 60 });
  assert.deepEqual(replay.metrics.caught.counted(), { ledger: 60 });
  assert.deepEqual(await ledgerCounts(owner), before);
  assert.deepEqual(deadLetters, []);
});

/** A record with other fields than it should have. */
function spoiled(changes: object, wish: Partial<RawRecord> = {}): RawRecord {
  const record = recordOf(aPayment());
  const fields = JSON.parse(record.value.toString()) as object;
  const value = Buffer.from(JSON.stringify({ ...fields, ...changes }));
  return { ...record, value, ...wish };
}

const headers = { traceparent, partner_id: 'acme' };
const poisons: readonly (readonly [string, RawRecord])[] = [
  ['null_value', { key: 'k', value: null, headers }],
  ['not_json', { key: 'k', value: Buffer.from('{"half":'), headers }],
  ['not_json', { key: null, value: Buffer.from([0xff, 0x00, 0xfe]), headers: {} }],
  ['too_large', { key: 'k', value: Buffer.alloc(300 * 1024, 0x20), headers }],
  ['unknown_schema', spoiled({ schema: 2 })],
  ['invalid_record', spoiled({ amount: 0 })],
  ['forged_id', spoiled({ idempotency_key: 'another' })],
  ['forged_id', spoiled({}, { key: '37585521-60c9-8d90-a37f-2e1b8a7081e6' })],
  ['partner_mismatch', spoiled({}, { headers: { ...headers, partner_id: 'globex' } })],
];

test('records that can never be posted become dead letters as they were, and hold up nobody', async (context) => {
  const { work, owner, append, deadLetters } = await aPipeline(context);
  const origin = { 'x-origin': 'a test' };
  for (const [, poison] of poisons) {
    await append(recordOf(aPayment()));
    await append({ ...poison, headers: { ...poison.headers, ...origin } });
  }
  await append(recordOf(aPayment()));
  await work().allCommitted();
  await eventually(async () => deadLetters.length === poisons.length);
  for (const [n, [reason, poison]] of poisons.entries()) {
    const deadLetter = deadLetterAt(deadLetters, 2 * n + 1);
    assert.equal(String(deadLetter.headers['dead-letter.reason']), reason);
    assert.deepEqual(deadLetter.value, poison.value);
    assert.deepEqual(deadLetter.key?.toString() ?? null, poison.key);
    for (const [name, value] of Object.entries({ ...poison.headers, ...origin })) {
      assert.equal(String(deadLetter.headers[name]), value);
    }
  }
  const posted = poisons.length + 1;
  assert.deepEqual(await ledgerCounts(owner), { rows: posted, entries: posted, events: posted });
});

test('records that Kafka drops while no worker runs are counted as lost by the next one', async (context) => {
  const { work, append, drop } = await aPipeline(context);
  const earlier = work();
  await append(recordOf(aPayment()));
  await earlier.allCommitted();
  await earlier.consumer.close();
  for (let n = 0; n < 3; n += 1) await append(recordOf(aPayment()));
  await drop();
  const { metrics } = work({ groupId: earlier.groupId });
  await eventually(async () => (await metrics.lost.get()).values[0]?.value === 3);
});

test('one row that the ledger can never store is found among 500 and affects no other', async (context) => {
  const { work, owner, append, deadLetters } = await aPipeline(context);
  await owner.query(`
    ALTER TABLE ledger.transactions ADD CONSTRAINT no_poison CHECK (reference <> 'poison')`);
  const payments = Array.from({ length: 500 }, (_, n) =>
    aPayment(n === 321 ? { reference: 'poison' } : {}),
  );
  await Promise.all(payments.map((payment) => append(recordOf(payment))));
  const worker = work();
  await worker.allCommitted();
  await eventually(async () => deadLetters.length === 1);
  assert.equal(String(deadLetters[0]!.headers['dead-letter.reason']), 'unpostable');
  assert.deepEqual(deadLetters[0]!.value, recordOf(payments[321]!).value);
  assert.deepEqual(await ledgerCounts(owner), { rows: 499, entries: 499, events: 499 });
  assert.deepEqual(outcomesOf(worker), { posted: 499, unpostable: 1 });
});

test('a second request under one key is reported once and dead-lettered, the first one stands', async (context) => {
  const { work, owner, append, deadLetters } = await aPipeline(context);
  const winner = aPayment({ key: 'order-1', amount: 100n });
  const loser = aPayment({ key: 'order-1', amount: 200n });
  for (const payment of [winner, loser, winner, loser]) await append(recordOf(payment));
  const worker = work();
  await worker.allCommitted();
  await eventually(async () => deadLetters.length === 2);
  for (const deadLetter of deadLetters) {
    assert.equal(String(deadLetter.headers['dead-letter.reason']), 'key_conflict');
    assert.deepEqual(deadLetter.value, recordOf(loser).value);
  }
  assert.deepEqual(await ledgerCounts(owner), { rows: 1, entries: 1, events: 2 });
  assert.equal((await worker.ledger.find(winner.txnId))?.details.money.amount, 100n);
});

test('a payment that another worker posted and did not finish is settled', async (context) => {
  const { work, store, owner, append } = await aPipeline(context);
  const payment = aPayment();
  await openPostgresLedger(store.open('triplock_ledger')).post([{ payment, traceparent }]);
  await append(recordOf(payment));
  await append(recordOf(payment));
  const worker = work();
  await worker.allCommitted();
  assert.equal((await worker.ledger.find(payment.txnId))?.state, 'succeeded');
  assert.deepEqual(await ledgerCounts(owner), { rows: 1, entries: 1, events: 1 });
  assert.deepEqual(outcomesOf(worker), { resumed: 1, 'already-recorded': 1 });
  assert.deepEqual(worker.metrics.caught.counted(), { ledger: 2 });
});

function deadLetterAt(all: readonly ReceivedRecord[], offset: number): ReceivedRecord {
  const found = all.find((each) => String(each.headers['dead-letter.offset']) === `${offset}`);
  assert.ok(found, `no dead letter for offset ${offset}`);
  return found;
}

test('the lag is shown of the partitions that are assigned, and of no others', async () => {
  const metrics = workerMetrics(createMetrics('test'));
  const meter = meterLag(metrics);
  const lag = async () =>
    Object.fromEntries(
      (await metrics.lag.get()).values.map(({ labels, value }) => [labels.partition, value]),
    );
  meter.assigned([0, 1]);
  assert.deepEqual(await lag(), { 0: 0, 1: 0 });
  const committed = { partition: 0, next: 15n, end: 100n };
  meter.at({ ...committed, next: 10n });
  assert.deepEqual(await lag(), { 0: 90, 1: 0 });
  meter.at(committed);
  assert.deepEqual(await lag(), { 0: 85, 1: 0 });

  meter.assigned([1, 2]);
  meter.at(committed);
  assert.deepEqual(await lag(), { 1: 0, 2: 0 });
  meter.assigned([]);
  assert.deepEqual(await lag(), {});
});

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const dayMs = 86_400_000;
const kept = {
  outcome: 'known',
  retentionMs: 7 * dayMs,
  segmentMs: 7 * dayMs,
  retentionBytes: Infinity,
  keepsEveryRecord: true,
  stampedBy: 'broker',
} as const;
const where = { brokers: ['kafka:9092'], topic: 'accepted' };
const check = (retention: TopicRetention) => checkRetention(where, retention, logger);

test('a topic that keeps records longer than a claim lives is accepted', async (context) => {
  check(kept);
  check({ ...kept, retentionMs: Infinity });
  const topic = await createTestTopic(context);
  const real = await readTopicRetention({ ...topic, clientId: 'test', logger });
  assert.deepEqual(real, kept);
});

test('a topic that drops records while their claims still answer is refused', () => {
  assert.throws(() => check({ ...kept, retentionMs: dayMs }), {
    message:
      'topic accepted keeps records for 24 hours (retention.ms): it must be more than the 24 hours for which a claim answers retries, as by kafka-configs.sh --bootstrap-server kafka:9092 --alter --entity-type topics --entity-name accepted --add-config retention.ms=604800000',
  });
});

test('a topic whose records have the time of whoever appends them is refused', async (context) => {
  const topic = await createTestTopic(context, { timestamps: 'CreateTime' });
  const real = await readTopicRetention({ ...topic, clientId: 'test', logger });
  assert.throws(() => check(real), /slow clock.*message.timestamp.type=LogAppendTime/);
});

test('a broker that does not report its retention refuses nothing', () => {
  check({ outcome: 'unknown', why: 'no broker answers' });
});

test('a compacted topic is refused', () => {
  assert.throws(() => check({ ...kept, keepsEveryRecord: false }), /is compacted/);
});
