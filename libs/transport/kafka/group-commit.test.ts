import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { EncodedRecord } from '@triplock/contracts';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, eventually } from '@triplock/testing';
import { openGroupCommit, type GroupCommitOptions } from './group-commit.ts';
import { ProduceRefusedError, ProduceUnknownError } from './append-queue.ts';
import { openLossyNetwork } from '../test/bad-network.ts';
import { readTopic, testEveryDriver as test, type DriverTest } from '../test/topic.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

function aRecord(wish: Partial<EncodedRecord> = {}): EncodedRecord {
  const headers = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, partner_id: 'acme' };
  return { key: randomUUID(), value: Buffer.from('{}'), headers, ...wish };
}

async function aLog(t: DriverTest, limits: GroupCommitOptions['limits'] = {}) {
  const connection = await createTestTopic(t, { partitions: 3 });
  const network = await openLossyNetwork(connection.brokers[0]!);
  const by = { driver: t.driver, dial: network.dial };
  const log = openGroupCommit({ ...connection, clientId: 'test', logger, ...by, limits });
  t.after(async () => {
    await log.close();
    await network.close();
  });
  const keysInTopic = async () =>
    (await readTopic(connection)).map((record) => record.key?.toString());
  return { connection, network, log, keysInTopic };
}

/** For what is not about time: a busy machine is waited for. */
const patient = { timeoutMs: 120_000 };

async function timed<Value>(work: Promise<Value>): Promise<{ value: Value; ms: number }> {
  const start = performance.now();
  return { value: await work, ms: performance.now() - start };
}

const reasonsOf = (ends: PromiseSettledResult<void>[]) =>
  ends.map((end) => (end.status === 'rejected' ? (end.reason as Error).name : 'acknowledged'));

test('an appended record is in the topic as it was given, in the partition of its key', async (t) => {
  const { connection, log } = await aLog(t, patient);
  const records = Array.from({ length: 50 }, () => aRecord());
  await Promise.all(records.map((record) => log.append(record)));
  const read = await readTopic(connection);
  assert.equal(read.length, 50);
  for (const record of records) {
    const found = read.find(({ key }) => key?.toString() === record.key);
    assert.deepEqual(found?.value, record.value);
    assert.equal(found?.headers?.['partner_id']?.toString(), 'acme');
    assert.equal(found?.headers?.['traceparent']?.toString(), record.headers.traceparent);
  }
});

test('a record has the time at which the broker got it, whatever the clock here shows', async (t) => {
  const { connection, log } = await aLog(t);
  const before = Date.now();
  t.mock.timers.enable({ apis: ['Date'], now: before - 8 * 86_400_000 });
  await log.append(aRecord());
  t.mock.timers.reset();
  const [record] = await readTopic(connection);
  const offByMs = Number(record!.timestamp) - before;
  assert.ok(offByMs > -60_000, `the record is ${-offByMs} ms older than it is`);
});

test('records of one key stay in the order in which they were appended', async (t) => {
  const { connection, log } = await aLog(t, { batchRecordsMax: 3, ...patient });
  const key = randomUUID();
  const values = Array.from({ length: 40 }, (_, at) => Buffer.from(`${at}`));
  await Promise.all(values.map((value) => log.append(aRecord({ key, value }))));
  assert.deepEqual(
    (await readTopic(connection)).map(({ value }) => value),
    values,
  );
});

test('with no broker every append is refused in time, and the next broker is found by itself', async (t) => {
  const { network, log, keysInTopic } = await aLog(t, { timeoutMs: 300 });
  network.cut();
  const { value: ends, ms } = await timed(
    Promise.allSettled([log.append(aRecord()), log.append(aRecord())]),
  );
  assert.deepEqual(reasonsOf(ends), ['ProduceRefusedError', 'ProduceRefusedError']);
  assert.ok(ms < 1_000, `refused after ${ms} ms`);
  await assert.rejects(log.ping());

  network.mend();
  const record = aRecord();
  await eventually(() => log.append(record).then(() => true));
  assert.deepEqual(
    new Set(await keysInTopic()),
    new Set([record.key]),
    'a refused record was sent',
  );
  await log.ping();
});

test('a hung broker leaves what was sent unknown and refuses what waited, both in time', async (t) => {
  const { network, log } = await aLog(t, { timeoutMs: 400, batchRecordsMax: 1 });
  await log.append(aRecord());
  network.freeze();
  const { value: ends, ms } = await timed(
    Promise.allSettled([log.append(aRecord()), log.append(aRecord()), log.append(aRecord())]),
  );
  assert.deepEqual(reasonsOf(ends), [
    'ProduceUnknownError',
    'ProduceRefusedError',
    'ProduceRefusedError',
  ]);
  assert.ok(ms < 1_200, `answered after ${ms} ms`);

  network.thaw();
  const back = await timed(eventually(() => log.append(aRecord()).then(() => true)));
  assert.ok(back.ms < 5_000, `came back after ${back.ms} ms`);
});

test('a broker that goes away and comes back between two appends costs no append', async (t) => {
  const { network, log } = await aLog(t, patient);
  await log.append(aRecord());
  const before = network.connections();
  network.cut();
  network.mend();
  await log.append(aRecord());
  assert.ok(network.connections() > before, 'the second append came by a connection that was cut');
});

test('a full queue refuses at once and keeps what it holds', async (t) => {
  const { network, log } = await aLog(t, { waitingRecordsMax: 5, ...patient });
  network.cut();
  const held = Array.from({ length: 5 }, () => log.append(aRecord()));
  const { ms } = await timed(assert.rejects(log.append(aRecord()), ProduceRefusedError));
  assert.ok(ms < patient.timeoutMs / 10, `refused after ${ms} ms`);
  network.mend();
  await Promise.all(held);
});

test('a record larger than a batch may be is refused and never sent', async (t) => {
  const { log, keysInTopic } = await aLog(t, { batchBytesMax: 1_000, ...patient });
  await assert.rejects(log.append(aRecord({ value: Buffer.alloc(1_000) })), ProduceRefusedError);
  await log.append(aRecord({ value: Buffer.alloc(100) }));
  assert.equal((await keysInTopic()).length, 1);
});

test('a record that the broker refuses is unknown to its sender and spoils no later one', async (t) => {
  const batches = { batchBytesMax: 4 * 1024 * 1024, batchRecordsMax: 1 };
  const { log } = await aLog(t, { ...batches, ...patient });
  const oversized = log.append(aRecord({ value: Buffer.alloc(2 * 1024 * 1024) }));
  const next = log.append(aRecord());
  await assert.rejects(oversized, ProduceUnknownError);
  await next;
});

test('closing sends what waits and refuses what comes later', async (t) => {
  const { log, keysInTopic } = await aLog(t, { batchRecordsMax: 2, ...patient });
  const waiting = Array.from({ length: 9 }, () => log.append(aRecord()));
  const closed = log.close();
  await assert.rejects(log.append(aRecord()), ProduceRefusedError);
  await Promise.all([closed, ...waiting]);
  assert.equal((await keysInTopic()).length, 9);
});

test('closing with no broker ends in time and refuses what waits', async (t) => {
  const { network, log } = await aLog(t, { timeoutMs: 300 });
  network.cut();
  const waiting = assert.rejects(log.append(aRecord()), ProduceRefusedError);
  const { ms } = await timed(log.close());
  await waiting;
  assert.ok(ms < 4_000, `closed after ${ms} ms`);
});
