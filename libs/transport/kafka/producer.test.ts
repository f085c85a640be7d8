import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { connect as connectTcp } from 'node:net';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic, growTestTopic } from '@triplock/testing';
import fc from 'fast-check';
import {
  Kafka,
  logLevel,
  Partitioners,
  type Message,
  type PartitionMetadata,
  type Producer,
} from 'kafkajs';
import { ProduceUnknownError } from './append-queue.ts';
import { appendInBatches, type AppendLimits } from './group-commit.ts';
import {
  connectProducer,
  partitionOfKey,
  requireEveryPartition,
  type IdempotentProducer,
} from './producer.ts';
import { openLossyNetwork, type LossyNetwork } from '../test/bad-network.ts';
import { readTopic, testEveryDriver, type DriverTest } from '../test/topic.ts';

test('a batch counts only when a broker answered for each of its partitions', () => {
  const messages = [
    { value: 'a', partition: 0 },
    { value: 'b', partition: 3 },
  ];
  requireEveryPartition(messages, [3, 0]);
  assert.throws(() => requireEveryPartition(messages, [0]), /partition 3/);
});

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** A producer on a topic of its own, by a network that a test can make worse. */
async function aProducer(t: DriverTest, shape: { partitions: number }) {
  const place = await createTestTopic(t, shape);
  const network = await openLossyNetwork(place.brokers[0]!);
  const by = { driver: t.driver, dial: network.dial };
  const options = { ...place, clientId: 'test', logger, ...by, sendLimitMs: 5_000 };
  const producer = await connectProducer(options);
  t.after(async () => {
    await producer.close();
    await network.close();
  });
  return { place, network, producer };
}

testEveryDriver(
  'a batch of which one partition is not in the answer is unknown, and ends its producer',
  async (t) => {
    const { network, producer } = await aProducer(t, { partitions: 2 });
    const messages = [0, 1].map((partition) => ({ value: 'a', partition }));
    await producer.send(messages);
    network.hidesPartition = true;
    await assert.rejects(producer.send(messages), /no broker answered for partition [01]/);
    network.hidesPartition = false;
    await assert.rejects(producer.send(messages), /sends nothing more/);
  },
);

testEveryDriver(
  'a message keeps its partition over its tries, although the topic grew between them',
  async (t) => {
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
  },
);

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

const limits: AppendLimits = {
  // Nothing here is about how long a busy machine takes.
  timeoutMs: 120_000,
  gatherMs: 0,
  batchRecordsMax: 20,
  batchBytesMax: 100_000,
  waitingRecordsMax: 1_000,
  waitingBytesMax: 1_000_000,
};

type Setup = { brokers: string[]; topic: string; network: LossyNetwork };

async function setUp(t: TestContext, partitions: number): Promise<Setup> {
  const { brokers, topic } = await createTestTopic(t, { partitions });
  const network = await openLossyNetwork(brokers[0]!);
  t.after(() => network.close());
  return { brokers, topic, network };
}

type Loss = {
  connect: () => Promise<IdempotentProducer>;
  /** Bursts under loss at least. */
  rounds: number;
  /** Records of the next burst. */
  burst: () => number;
  losesReply: () => boolean;
  /** Whether the fault has fired often enough by now; asked when the rounds are over. */
  isEnough?: (counted: { acknowledged: number; unknown: number }) => boolean;
};

const calmRounds = 5;

/** Appends in bursts while replies are lost, and finds which acknowledgements lied. */
async function appendUnderLoss(connection: Setup, loss: Loss) {
  const { connect, rounds, burst, losesReply, isEnough = () => true } = loss;
  const { network } = connection;
  const appender = appendInBatches({ connect, limits, logger });
  const acknowledged: string[] = [];
  let unknown = 0;
  const appendBurst = async () => {
    const keys = Array.from({ length: burst() }, () => randomUUID());
    const ends = await Promise.allSettled(
      keys.map((key) => appender.append({ key, value: `value of ${key}` })),
    );
    for (const [at, end] of ends.entries()) {
      if (end.status === 'fulfilled') acknowledged.push(keys[at]!);
      else if (end.reason instanceof ProduceUnknownError) unknown += 1;
      else throw end.reason;
    }
  };
  network.losesReply = losesReply;
  const goesOn = (round: number) =>
    round < rounds || !isEnough({ acknowledged: acknowledged.length, unknown });
  for (let round = 0; goesOn(round); round += 1) await appendBurst();
  network.losesReply = () => false;
  for (let round = 0; round < calmRounds; round += 1) await appendBurst();
  await appender.close();
  const stored = new Set((await readTopic(connection)).map((record) => record.key?.toString()));
  const missing = acknowledged.filter((key) => !stored.has(key));
  return { missing };
}

testEveryDriver(
  'no acknowledged record is missing from the topic, however many replies are lost',
  async (t) => {
    const connection = await setUp(t, 3);
    const { brokers, topic, network } = connection;
    const by = { driver: t.driver, dial: network.dial };
    let [sendLimitMs, lostBefore] = [75, 0];
    const { missing } = await appendUnderLoss(connection, {
      rounds: 55,
      burst: () => 1 + Math.floor(Math.random() * 12),
      losesReply: () => Math.random() < 0.7,
      isEnough: ({ acknowledged, unknown }) =>
        Math.min(network.lostReplies(), acknowledged, unknown) > 30,
      connect: () => {
        // A batch that failed although no reply was lost has met a slow machine, and not the fault.
        if (network.lostReplies() === lostBefore) sendLimitMs *= 2;
        lostBefore = network.lostReplies();
        return connectProducer({ brokers, clientId: 'test', logger, ...by, topic, sendLimitMs });
      },
    });
    assert.deepEqual(missing, []);
  },
);

/** A producer as it must not be used: it lives on after a rejected batch. */
async function connectStubbornProducer(t: TestContext, connection: Setup): Promise<Producer> {
  const kafka = new Kafka({
    brokers: connection.brokers,
    clientId: 'test',
    logLevel: logLevel.NOTHING,
    retry: { retries: 1, initialRetryTime: 10 },
    socketFactory: ({ onConnect }) =>
      connectTcp(connection.network.dial()).once('connect', onConnect),
  });
  const producer = kafka.producer({
    idempotent: true,
    createPartitioner: () => () => 0,
  });
  await producer.connect();
  t.after(() => producer.disconnect());
  return producer;
}

test('a producer kept after a rejected batch acknowledges a batch that was never stored', async (t) => {
  const connection = await setUp(t, 1);
  const { topic, network } = connection;
  const producer = await connectStubbornProducer(t, connection);
  const send = (messages: Message[]) =>
    producer.sendBatch({ topicMessages: [{ topic, messages }] });

  network.losesReply = () => true;
  await assert.rejects(
    send([
      { key: 'a1', value: '' },
      { key: 'a2', value: '' },
    ]),
  );
  network.losesReply = () => false;
  await send([
    { key: 'b1', value: '' },
    { key: 'b2', value: '' },
  ]);

  const keys = (await readTopic(connection)).map((record) => record.key?.toString());
  assert.deepEqual(
    keys,
    ['a1', 'a2'],
    'the acknowledged batch b is in the topic: the trap is gone',
  );
});

test('the check for missing records sees a producer that is kept after a rejected batch', async (t) => {
  const connection = await setUp(t, 1);
  const { topic } = connection;
  const producer = await connectStubbornProducer(t, connection);
  const kept: IdempotentProducer = {
    send: async (records) => {
      const messages = records as Message[];
      await producer.sendBatch({ topicMessages: [{ topic, messages }] });
    },
    close: async () => undefined,
  };
  // Both tries of every second batch lose their reply, so the batch is stored and rejected; the
  // next one is as long, is taken for a copy of it, and is acknowledged.
  let reply = 0;
  const { missing } = await appendUnderLoss(connection, {
    rounds: 5,
    burst: () => 3,
    losesReply: () => reply++ % 3 !== 2,
    connect: async () => kept,
  });
  assert.notEqual(missing.length, 0);
});
