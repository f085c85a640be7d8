import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { encodePaymentAccepted, encodeFollowUpAccepted } from '@triplock/contracts';
import { createMetrics, createLogger, type Gauge } from '@triplock/runtime';
import { aPayment, aRefund, createTestDatabase } from '@triplock/testing';
import type { ReceivedRecord } from '@triplock/transport';
import fc from 'fast-check';
import { observe, resultOf } from './audit.ts';
import { auditorMetrics } from './metrics.ts';
import { recordAcceptedBatch, recordDeadLetterBatch } from './kafka-records.ts';
import { ownersOf } from './test/hops.ts';
import { anAuditorOf, aWholeLog, wholeSystem } from './test/whole-system.ts';
import { watchRetention, type RetentionWatch } from './kafka-retention.ts';

async function anAuditor(context: TestContext) {
  const database = (await createTestDatabase(context)).open('triplock_auditor');
  const metrics = auditorMetrics(createMetrics('test'));
  return {
    accept: recordAcceptedBatch(aWholeLog(database), metrics, { apartMs: 0 }),
    bury: recordDeadLetterBatch(database, metrics),
    rows: <Row extends object>(sql: string) => database.query<Row>(sql),
  };
}

let offset = 0n;

function aRecord(wish: Partial<ReceivedRecord> = {}): ReceivedRecord {
  const { key, value, headers } = encodePaymentAccepted(aPayment(), '');
  const partner = Buffer.from(headers.partner_id);
  offset += 1n;
  return {
    topic: 'payments.accepted.v1',
    partition: 3,
    offset,
    key: Buffer.from(key),
    value,
    headers: { partner_id: partner },
    timestamp: '0',
    ...wish,
  };
}

test('a batch that comes again, or holds a request twice, is remembered once', async (context) => {
  const { accept, rows } = await anAuditor(context);
  const [first, second] = [aRecord(), aRecord()];
  const again = { ...first, offset: second.offset + 100n };
  const batch = { records: [first, second, again, aRecord({ value: null })] };
  await accept(batch);
  await accept(batch);
  assert.equal((await rows('SELECT FROM accepted')).length, 2);
  assert.deepEqual(await rows('SELECT kafka_partition, reason FROM accepted_refused'), [
    { kafka_partition: 3, reason: 'null_value' },
  ]);
});

test('a refund is remembered with its payment, and with its amount if it says one', async (context) => {
  const { accept, rows } = await anAuditor(context);
  const payment = aPayment();
  const refunds = [aRefund(payment, { amount: 7n }), aRefund(payment)];
  const records = refunds.map((refund) => {
    const { key, value } = encodeFollowUpAccepted(refund, '');
    return aRecord({ key: Buffer.from(key), value });
  });
  await accept({ records });
  const remembered = await rows('SELECT * FROM accepted ORDER BY kafka_offset');
  for (const [nth, amount] of [7n, null].entries()) {
    assert.partialDeepStrictEqual(remembered[nth], {
      txn_id: refunds[nth]!.txnId,
      kind: 'refund',
      payment_id: payment.txnId,
      partner_id: 'acme',
      currency: null,
      amount,
    });
  }
});

test('whatever the bytes of a record are, its batch is remembered', async (context) => {
  const { accept, bury, rows } = await anAuditor(context);
  const awkwardName = fc.constantFrom('\0', '\ud800', 'schema', '__proto__', 'x'.repeat(9_000));
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 50 }).map((some) => Buffer.from(some)),
    fc.json().map((text) => Buffer.from(text)),
    fc
      .dictionary(awkwardName, fc.jsonValue())
      .map((some) => Buffer.from(JSON.stringify({ schema: 1, ...some }))),
  );
  let records = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(bytes, { minLength: 1, maxLength: 5 }), async (values) => {
      const batch = { records: values.map((value) => aRecord({ value })) };
      await accept(batch);
      await bury(batch);
      records += values.length;
    }),
    { numRuns: 50 },
  );
  assert.equal((await rows('SELECT FROM accepted_refused')).length, records);
  assert.equal((await rows('SELECT FROM dead_letters')).length, records);
});

test('a dead letter is known by the record it was, and by its payment if it is one', async (context) => {
  const { bury, rows } = await anAuditor(context);
  const labels = (reason: string) => ({
    'dead-letter.reason': Buffer.from(reason),
    'dead-letter.topic': Buffer.from('payments.accepted.v1'),
    'dead-letter.partition': Buffer.from('7'),
    'dead-letter.offset': Buffer.from('4711'),
  });
  const loser = aRecord();
  const deadLetter = { ...loser, headers: { ...loser.headers, ...labels('key_conflict') } };
  await bury({ records: [deadLetter] });
  await bury({ records: [{ ...deadLetter, offset: deadLetter.offset + 1n }] });
  const sql = 'SELECT kafka_partition, kafka_offset, reason, txn_id FROM dead_letters';
  assert.deepEqual(await rows(sql), [
    {
      kafka_partition: 7,
      kafka_offset: 4711n,
      reason: 'key_conflict',
      txn_id: loser.key!.toString(),
    },
  ]);
});

const hourMs = 3_600_000;

/** What the metrics say after one pass: seconds, ratio, dropped records. */
async function watched(
  unread: Awaited<ReturnType<RetentionWatch['unread']['look']>>,
  retentionMs: number,
): Promise<(number | undefined)[]> {
  const metrics = auditorMetrics(createMetrics('test'));
  const pass = watchRetention({
    unread: { look: () => Promise.resolve(unread) },
    readRetention: () =>
      Promise.resolve({
        outcome: 'known',
        retentionMs,
        segmentMs: retentionMs,
        retentionBytes: Infinity,
        keepsEveryRecord: true,
        stampedBy: 'broker',
      }),
    metrics,
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
  });
  const before = Date.now() / 1_000;
  await pass();
  const valueOf = async (gauge: Gauge) => (await gauge.get()).values[0]?.value;
  assert.ok((await valueOf(metrics.unreadLooked))! >= before);
  const gauges = [metrics.oldestUnreadSeconds, metrics.retentionUsed, metrics.droppedUnread];
  return Promise.all(gauges.map(valueOf));
}

test('the worker’s lag is measured against what Kafka keeps', async () => {
  assert.deepEqual(
    await watched({ records: 9n, oldestMs: 6 * hourMs, dropped: 0n }, 24 * hourMs),
    [21_600, 0.25, 0],
  );
  assert.deepEqual(
    await watched({ records: 9n, oldestMs: 6 * hourMs, dropped: 2n }, Infinity),
    [21_600, 0, 2],
  );
  assert.deepEqual(
    await watched({ records: 0n, oldestMs: 0, dropped: 0n }, 24 * hourMs),
    [0, 0, 0],
  );
});

test('what Kafka lost after the auditor alone, or a worker alone, had read it, or of a dead letter, is drift until that id is acknowledged, and then adds up', async (context) => {
  const store = await createTestDatabase(context);
  const [system, database] = [wholeSystem(ownersOf(store)), store.open('triplock_auditor')];
  const [unposted, unread, partial] = [aPayment({ amount: 7n }), aPayment(), aPayment()];
  await system.pay(partial);
  const unpostedRefund = aRefund(partial, { amount: 5n });
  await system.accept(unposted);
  await system.accept(unpostedRefund);
  await system.pay(unread);
  await system.break('DELETE FROM auditor.accepted WHERE txn_id = $1', [unread.txnId]);
  const checksOf = async () => {
    const { drift } = resultOf(await observe(anAuditorOf(database, {})), { final: true });
    return drift.map(({ check, ids }) => [check, ids.toSorted()]);
  };
  const lost = [unposted.txnId, unpostedRefund.txnId].toSorted();
  assert.deepEqual(await checksOf(), [
    ['accepted-unaccounted', lost],
    ['ledger-not-accepted', [unread.txnId]],
    ['sums-differ', ['acme/EUR']],
  ]);
  const acknowledge = (subject: string) =>
    system.break(
      `INSERT INTO auditor.operator_acts (act, subject, done_by) VALUES ('acknowledge', $1, 'ada')`,
      [subject],
    );
  await acknowledge(`accepted:${unposted.txnId}`);
  await acknowledge(`ledger:${unread.txnId}`);
  assert.deepEqual(await checksOf(), [['accepted-unaccounted', [unpostedRefund.txnId]]]);
  await acknowledge(`accepted:${unpostedRefund.txnId}`);
  assert.deepEqual(await checksOf(), []);
  // What is lost under that key later is a finding of its own; what is posted after all is none.
  await system.accept(aPayment({ partner: unposted.partnerId, key: unposted.key, amount: 8n }));
  assert.deepEqual(await checksOf(), [
    ['accepted-unaccounted', [unposted.txnId]],
    ['sums-differ', ['acme/EUR']],
  ]);
  await acknowledge(`accepted:${unposted.txnId}`);
  await system.pay(unposted);
  await system.accept(unread);
  assert.deepEqual(await checksOf(), []);
  const noRequest = { ...system.record(aPayment()), value: null };
  await system.append([noRequest]);
  const place = `${noRequest.topic}/0/${noRequest.offset}`;
  assert.deepEqual(await checksOf(), [['refused-record-not-dead-lettered', [place]]]);
  await acknowledge(`record:${place}`);
  assert.deepEqual(await checksOf(), []);
});

test('the audit balances when a redriven dead letter is as bad as before', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_auditor');
  const system = wholeSystem(ownersOf(store));
  const winner = aPayment();
  const loser = aPayment({ partner: winner.partnerId, key: winner.key, amount: 7n });
  await system.pay(winner);
  await system.loseKey(loser);
  for (let time = 0; time < 2; time += 1) {
    const spoiled = { ...system.record(aPayment()), value: Buffer.from('{"half":') };
    await system.append([spoiled]);
    await system.deadLetter(spoiled, 'not_json');
  }
  // The request that lost its key, given back from the dead letters, loses it once more.
  const again = await system.accept(loser);
  await system.conflict(loser);
  await system.deadLetter(again, 'key_conflict');

  const { ok, counts } = resultOf(await observe(anAuditorOf(database)), { final: true });
  assert.equal(ok, true);
  const { accepted, ledger, deadLettered, keyConflicts } = counts;
  assert.deepEqual(
    { accepted, ledger, deadLettered, keyConflicts },
    {
      accepted: 4,
      ledger: 1,
      deadLettered: 2,
      keyConflicts: 1,
    },
  );
});
