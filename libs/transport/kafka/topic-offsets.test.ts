import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, testNamespace } from '@triplock/testing';
import { Kafka, logLevel } from 'kafkajs';
import { connectProducer } from './idempotent-producer.ts';
import { openLossyNetwork } from './lossy-network.testing.ts';
import { openTopicOffsets } from './topic-offsets.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

test('the end counts what every partition holds, times are found in it, and a group that never committed is at 0', async (t) => {
  const connection = { ...(await createTestTopic(t, { partitions: 2 })), clientId: 'test', logger };
  const producer = await connectProducer({ ...connection, sendLimitMs: 5_000 });
  const offsets = openTopicOffsets({ ...connection, groupId: testNamespace('group') });
  t.after(() => Promise.all([producer.close(), offsets.close()]));
  await producer.send([
    { value: 'a', partition: 1, timestamp: '1000' },
    { value: 'b', partition: 1, timestamp: '3000' },
  ]);
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
  const place = await createTestTopic(t);
  const connection = { ...place, clientId: 'test', logger };
  const producer = await connectProducer({ ...connection, sendLimitMs: 5_000 });
  const offsets = openTopicOffsets({ ...connection, groupId: testNamespace('group') });
  t.after(() => Promise.all([producer.close(), offsets.close()]));
  await producer.send([{ value: 'a' }, { value: 'b' }]);
  const admin = new Kafka({ brokers: place.brokers, logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  t.after(() => admin.disconnect());
  // Asked only because kafkajs deletes nothing of a topic that it has not met.
  const partitions = await admin.fetchTopicOffsets(place.topic);
  await admin.deleteTopicRecords({ topic: place.topic, partitions });
  assert.deepEqual(await offsets.committed(), await offsets.end());
});

test('a broker that hangs is an error within 3 s, and the next question is answered again', async (t) => {
  const place = await createTestTopic(t);
  const network = await openLossyNetwork(place.brokers[0]!);
  const { connect } = network;
  const offsets = openTopicOffsets({
    ...place,
    groupId: testNamespace('group'),
    clientId: 'test',
    logger,
    connect,
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
