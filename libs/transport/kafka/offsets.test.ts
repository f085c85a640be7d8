import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createLogger } from '@triplock/runtime';
import { commitTestOffset, createTestTopic, eventually, testNamespace } from '@triplock/testing';
import { Kafka, logLevel } from 'kafkajs';
import { connectProducer } from './producer.ts';
import { openLossyNetwork } from '../test/bad-network.ts';
import { openGroupMover, openTopicOffsets, openUnreadRecords } from './offsets.ts';
import { aGroup, numbered, testEveryDriver as test, type DriverTest } from '../test/topic.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

test('the end counts what every partition holds, times are found in it, and a group that never committed is at 0', async (t) => {
  const place = await createTestTopic(t, { partitions: 2, timestamps: 'CreateTime' });
  const connection = { ...place, clientId: 'test', logger, driver: t.driver };
  const offsets = openTopicOffsets({ ...connection, groupId: testNamespace('group') });
  const producer = new Kafka({ brokers: place.brokers, logLevel: logLevel.NOTHING }).producer();
  await producer.connect();
  t.after(() => Promise.all([producer.disconnect(), offsets.close()]));
  const messages = ['1000', '3000'].map((timestamp) => ({ value: 'a', partition: 1, timestamp }));
  await producer.send({ topic: place.topic, messages });
  assert.deepEqual(
    await offsets.end(),
    new Map([
      [0, 0n],
      [1, 2n],
    ]),
  );
  const sinceMs = async (ms: number) => (await offsets.since(new Date(ms))).get(1);
  assert.deepEqual(await Promise.all([1_000, 2_000, 4_000].map(sinceMs)), [0n, 1n, 2n]);
  assert.deepEqual(
    await offsets.committed(),
    new Map([
      [0, 0n],
      [1, 0n],
    ]),
  );
});

test('what aged out before it was read holds up no barrier', async (t) => {
  const broker = await createTestTopic(t);
  const connection = { ...broker, clientId: 'test', logger, driver: t.driver };
  const producer = await connectProducer({ ...connection, sendLimitMs: 5_000 });
  const offsets = openTopicOffsets({ ...connection, groupId: testNamespace('group') });
  t.after(() => Promise.all([producer.close(), offsets.close()]));
  await producer.send([{ value: 'a' }, { value: 'b' }]);
  const admin = new Kafka({ brokers: broker.brokers, logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  t.after(() => admin.disconnect());
  // Asked only because kafkajs deletes nothing of a topic that it has not met.
  const partitions = await admin.fetchTopicOffsets(broker.topic);
  await admin.deleteTopicRecords({ topic: broker.topic, partitions });
  assert.deepEqual(await offsets.committed(), await offsets.end());
});

test('an offset past the end was committed to an older topic and counts as none', async (t) => {
  const broker = await createTestTopic(t);
  const connection = { ...broker, clientId: 'test', logger, driver: t.driver };
  const groupId = testNamespace('group');
  const producer = await connectProducer({ ...connection, sendLimitMs: 5_000 });
  const offsets = openTopicOffsets({ ...connection, groupId });
  t.after(() => Promise.all([producer.close(), offsets.close()]));
  await producer.send([{ value: 'a' }, { value: 'b' }, { value: 'c' }]);
  const committedAfter = async (offset: number) => {
    await commitTestOffset(broker, { groupId, offset });
    return (await offsets.committed()).get(0);
  };
  assert.equal(await committedAfter(3), 3n);
  assert.equal(await committedAfter(4), 0n);
});

test('a broker that hangs is an error within 3 s, and the next question is answered again', async (t) => {
  const broker = await createTestTopic(t);
  const network = await openLossyNetwork(broker.brokers[0]!);
  const { dial } = network;
  const offsets = openTopicOffsets({
    ...broker,
    groupId: testNamespace('group'),
    clientId: 'test',
    logger,
    driver: t.driver,
    dial,
  });
  t.after(() => Promise.all([offsets.close(), network.close()]));
  await offsets.end();
  network.freeze();
  const start = performance.now();
  await assert.rejects(offsets.end());
  await assert.rejects(offsets.committed());
  assert.ok(performance.now() - start < 6_000);
  network.thaw();
  assert.deepEqual(await offsets.end(), new Map([[0, 0n]]));
});
const hourMs = 3_600_000;

async function aTopicOf(context: DriverTest, agesInHours: readonly number[]) {
  const { brokers, topic } = await createTestTopic(context, { timestamps: 'CreateTime' });
  const kafka = new Kafka({ brokers, clientId: 'test', logLevel: logLevel.NOTHING });
  const [producer, admin] = [kafka.producer(), kafka.admin()];
  await Promise.all([producer.connect(), admin.connect()]);
  context.after(() => Promise.all([producer.disconnect(), admin.disconnect()]));
  const messages = agesInHours.map((hours) => ({
    value: 'a record',
    timestamp: String(Date.now() - hours * hourMs),
  }));
  await producer.send({ topic, messages });
  const groupId = `test-${randomUUID()}`;
  const unread = openUnreadRecords({
    brokers,
    topic,
    groupId,
    clientId: 'test',
    logger,
    driver: context.driver,
  });
  context.after(() => unread.close());
  const commit = (offset: number) => commitTestOffset({ brokers, topic }, { groupId, offset });
  const drop = async (offset: number) => {
    // kafkajs deletes nothing of a topic that it has not met.
    await admin.fetchTopicOffsets(topic);
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: `${offset}` }] });
  };
  return { unread, commit, drop, brokers, topic };
}

test('the oldest unread record’s age is found within 5 %, and 0 when all is read', async (context) => {
  const { unread, commit } = await aTopicOf(context, [50, 10, 1]);
  const isAbout = async (hours: number) => {
    const { oldestMs } = await unread.look();
    const found = oldestMs / hourMs;
    assert.ok(found > hours * 0.95 && found < hours * 1.001, `${found} hours instead of ${hours}`);
  };
  await isAbout(50);
  await commit(1);
  await isAbout(10);
  await commit(2);
  await isAbout(1);
  assert.equal((await unread.look()).records, 1n);
  await commit(3);
  assert.deepEqual(await unread.look(), { records: 0n, oldestMs: 0, dropped: 0n });
});

test('the age of the oldest unread record is found when it is younger than 2 s', async (context) => {
  const startedAt = Date.now();
  const { unread } = await aTopicOf(context, [1 / 3_600]);
  const { records, oldestMs } = await unread.look();
  assert.equal(records, 1n);
  const greatest = Date.now() - startedAt + 1_000;
  assert.ok(oldestMs > 950 && oldestMs <= greatest, `${oldestMs} ms of ${greatest}`);
});

test('records that the topic dropped before they were read are counted', async (context) => {
  const { unread, commit, drop } = await aTopicOf(context, [3, 2, 1]);
  await commit(1);
  await drop(2);
  const { dropped } = await eventually(async () => {
    const seen = await unread.look();
    return seen.dropped > 0n && seen;
  });
  assert.equal(dropped, 1n);
});

test('a group is moved back while nobody is in it, and refused by name while somebody is', async (context) => {
  const { brokers, topic, groupId, offsets, seen, consume, append, allCommitted } = await aGroup(
    context,
    2,
  );
  const mover = openGroupMover({
    brokers,
    topic,
    groupId,
    clientId: 'test',
    logger,
    driver: context.driver,
  });
  context.after(() => mover.close());
  assert.deepEqual(await mover.members(), []);
  await append(...numbered(5, 0), ...numbered(5, 1));
  const consumer = consume();
  await allCommitted();
  assert.deepEqual(await mover.members(), ['test']);
  await assert.rejects(mover.moveTo(new Map([[0, 2n]])));
  await consumer.close();
  await eventually(async () => (await mover.members()).length === 0);
  await mover.moveTo(new Map([[0, 2n]]));
  assert.deepEqual(
    await offsets.committed(),
    new Map([
      [0, 2n],
      [1, 5n],
    ]),
  );
  seen.length = 0;
  consume();
  await allCommitted();
  assert.deepEqual(
    seen.map(({ partition, offset }) => [partition, offset]),
    [2n, 3n, 4n].map((offset) => [0, offset]),
  );
});
