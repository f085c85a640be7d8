import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, eventually } from '@triplock/testing';
import { Kafka, logLevel } from 'kafkajs';
import { readTopicRetention } from './topic-retention.ts';
import { openUnreadRecords } from './unread-records.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const hourMs = 3_600_000;

async function aTopicOf(context: TestContext, agesInHours: readonly number[]) {
  const { brokers, topic } = await createTestTopic(context);
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
  const unread = openUnreadRecords({ brokers, topic, groupId, clientId: 'test', logger });
  context.after(() => unread.close());
  const commit = (offset: number) =>
    admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: String(offset) }] });
  const drop = (offset: number) =>
    admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(offset) }] });
  return { unread, commit, drop, brokers, topic };
}

test('the oldest unread record’s age is told within 5 %, and 0 when all is read', async (context) => {
  const { unread, commit } = await aTopicOf(context, [50, 10, 1]);
  const isAbout = async (hours: number) => {
    const { oldestMs } = await unread.look();
    const told = oldestMs / hourMs;
    assert.ok(told > hours * 0.95 && told < hours * 1.001, `${told} hours instead of ${hours}`);
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

test('a topic tells for how long it keeps records, and a missing one why it does not', async (context) => {
  const { brokers, topic } = await createTestTopic(context);
  const read = (name: string) =>
    readTopicRetention({ brokers, topic: name, clientId: 'test', logger });
  assert.deepEqual(await read(topic), {
    outcome: 'known',
    retentionMs: 7 * 24 * hourMs,
    segmentMs: 7 * 24 * hourMs,
    retentionBytes: Infinity,
    keepsEveryRecord: true,
  });
  assert.equal((await read(`${topic}.missing`)).outcome, 'unknown');
});
