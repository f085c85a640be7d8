import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, growTestTopic } from '@triplock/testing';
import fc from 'fast-check';
import { Partitioners, type PartitionMetadata } from 'kafkajs';
import { connectProducer, partitionOfKey, requireEveryPartition } from './producer.ts';
import { openLossyNetwork } from '../test/bad-network.ts';
import { readTopic } from '../test/topic.ts';

test('a batch counts only when a broker answered for each of its partitions', () => {
  const messages = [
    { value: 'a', partition: 0 },
    { value: 'b', partition: 3 },
  ];
  requireEveryPartition(messages, [{ partition: 3 }, { partition: 0 }]);
  assert.throws(() => requireEveryPartition(messages, [{ partition: 0 }]), /partition 3/);
});

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** A producer on a topic of its own, by a network that a test can make worse. */
async function aProducer(t: TestContext, shape: { partitions: number }) {
  const place = await createTestTopic(t, shape);
  const network = await openLossyNetwork(place.brokers[0]!);
  const { connect } = network;
  const options = { ...place, clientId: 'test', logger, connect, sendLimitMs: 5_000 };
  const producer = await connectProducer(options);
  t.after(async () => {
    await producer.close();
    await network.close();
  });
  return { place, network, producer };
}

test('a batch of which one partition is not in the answer is unknown, and ends its producer', async (t) => {
  const { network, producer } = await aProducer(t, { partitions: 2 });
  const messages = [0, 1].map((partition) => ({ value: 'a', partition }));
  await producer.send(messages);
  network.hidesPartition = true;
  await assert.rejects(producer.send(messages), /no broker answered for partition [01]/);
  network.hidesPartition = false;
  await assert.rejects(producer.send(messages), /sends nothing more/);
});

test('a message keeps its partition over its tries, although the topic grew between them', async (t) => {
  const { place, network, producer } = await aProducer(t, { partitions: 1 });
  await producer.send([{ key: 'warm-up', value: '' }]);
  const keys = Array.from({ length: 20 }, (_, at) => `key-${at}`);
  assert.ok(keys.some((key) => partitionOfKey(key, 4) !== 0));
  await growTestTopic(place, 4);
  let replies = 0;
  network.losesReply = () => (replies += 1) === 1;
  await producer.send(keys.map((key) => ({ key, value: '' })));
  assert.equal(network.lostReplies(), 1);
  const stored = (await readTopic(place)).map(({ key, partition }) => [String(key), partition]);
  assert.deepEqual(
    stored,
    ['warm-up', ...keys].map((key) => [key, 0]),
  );
});

const partitionMetadata = Array.from({ length: 12 }, (_, partitionId) => ({
  partitionId,
  leader: 1,
})) as PartitionMetadata[];

test('a key has the partition that every other Kafka client gives it', () => {
  const theirs = Partitioners.DefaultPartitioner();
  fc.assert(
    fc.property(fc.oneof(fc.uuid(), fc.string(), fc.uint8Array()), (input) => {
      const key = typeof input === 'string' ? input : Buffer.from(input);
      const message = { key, value: null };
      assert.equal(partitionOfKey(key, 12), theirs({ topic: 't', partitionMetadata, message }));
    }),
    { numRuns: 1_000 },
  );
});
