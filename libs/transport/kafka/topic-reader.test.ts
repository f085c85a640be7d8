import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { appendInTransaction, createTestTopic, testPart } from '@triplock/testing';
import { Kafka, logLevel } from 'kafkajs';
import { openTopicReader } from './topic-reader.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

async function openTopic(t: TestContext) {
  const { brokers, topic } = await createTestTopic(t, { partitions: 3 });
  const kafka = new Kafka({ brokers, clientId: 'test', logLevel: logLevel.NOTHING });
  const send = async (keys: readonly string[]) => {
    const producer = kafka.producer();
    await producer.connect();
    await producer.send({ topic, messages: keys.map((key) => ({ key, value: `of ${key}` })) });
    await producer.disconnect();
  };
  const reader = openTopicReader({ brokers, clientId: topic, logger, topic });
  t.after(() => reader.close());
  return { kafka, topic, send, reader };
}

test('all records of one key are found, and no group is left on the broker', async (t) => {
  const { kafka, topic, send, reader } = await openTopic(t);
  const since = new Date();
  assert.deepEqual((await reader.ofKey('one', since)).records, []);
  await send(['one', 'two', 'three', 'one']);
  const { partition, records, complete } = await reader.ofKey('one', since);
  assert.equal(complete, true);
  assert.deepEqual(
    records.map(({ key, value }) => [String(key), String(value)]),
    [
      ['one', 'of one'],
      ['one', 'of one'],
    ],
  );
  const [first] = records;
  assert.equal(String((await reader.at(partition, first!.offset))?.value), 'of one');
  const admin = kafka.admin();
  await admin.connect();
  t.after(() => admin.disconnect());
  const { groups } = await admin.listGroups();
  assert.deepEqual(
    groups.filter(({ groupId }) => groupId.startsWith(topic)),
    [],
  );
});

test('a look ends where a transaction left its marker, and there is no record at its offset', async (t) => {
  const { topic, reader } = await openTopic(t);
  const place = { brokers: [await testPart('kafka')], topic };
  const message = { key: 'one', value: 'in a transaction', partition: 0 };
  await appendInTransaction(place, { message, end: 'commit' });
  assert.deepEqual(
    (await reader.newest()).map(({ key }) => String(key)),
    ['one'],
  );
  assert.equal(await reader.at(0, 1n), undefined);
});

test('the newest records come of all partitions, and an offset past the end has none', async (t) => {
  const { send, reader } = await openTopic(t);
  assert.deepEqual(await reader.newest(), []);
  await send(['one', 'two', 'three', 'four', 'five']);
  const keys = (await reader.newest()).map(({ key }) => String(key));
  assert.deepEqual(keys.sort(), ['five', 'four', 'one', 'three', 'two']);
  assert.equal(await reader.at(0, 99n), undefined);
  assert.equal(await reader.at(9, 0n), undefined);
});
