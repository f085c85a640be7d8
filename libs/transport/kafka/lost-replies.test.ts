import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic } from '@triplock/testing';
import { Kafka, logLevel, type Message, type Producer } from 'kafkajs';
import { appendInBatches, type AppendLimits } from './group-commit.ts';
import { connectProducer, type IdempotentProducer } from './producer.ts';
import { ProduceUnknownError } from './append-queue.ts';
import { openLossyNetwork, type LossyNetwork } from '../test/lossy-network.ts';
import { readTopic } from '../test/read-topic.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const limits: AppendLimits = {
  timeoutMs: 5_000,
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
  rounds: number;
  /** Records of the next burst. */
  burst: () => number;
  losesReply: () => boolean;
};

/** Appends in bursts while replies are lost, and finds which acknowledgements lied. */
async function appendUnderLoss(connection: Setup, { connect, rounds, burst, losesReply }: Loss) {
  const { network } = connection;
  const appender = appendInBatches({ connect, limits, logger });
  const acknowledged: string[] = [];
  let unknown = 0;
  network.losesReply = losesReply;
  for (let round = 0; round < rounds; round += 1) {
    if (round === rounds - 5) network.losesReply = () => false;
    const keys = Array.from({ length: burst() }, () => randomUUID());
    const ends = await Promise.allSettled(
      keys.map((key) => appender.append({ key, value: `value of ${key}` })),
    );
    for (const [at, end] of ends.entries()) {
      if (end.status === 'fulfilled') acknowledged.push(keys[at]!);
      else if (end.reason instanceof ProduceUnknownError) unknown += 1;
      else throw end.reason;
    }
  }
  await appender.close();
  const stored = new Set((await readTopic(connection)).map((record) => record.key?.toString()));
  const missing = acknowledged.filter((key) => !stored.has(key));
  return { acknowledged: acknowledged.length, missing, unknown };
}

test('no acknowledged record is missing from the topic, however many replies are lost', async (t) => {
  const connection = await setUp(t, 3);
  const { brokers, topic, network } = connection;
  const { connect } = network;
  const result = await appendUnderLoss(connection, {
    rounds: 60,
    burst: () => 1 + Math.floor(Math.random() * 12),
    losesReply: () => Math.random() < 0.7,
    connect: () =>
      connectProducer({ brokers, clientId: 'test', logger, connect, topic, sendLimitMs: 150 }),
  });
  assert.deepEqual(result.missing, []);
  assert.ok(network.lostReplies() > 30, `only ${network.lostReplies()} replies were lost`);
  assert.ok(result.unknown > 30, `only ${result.unknown} records were unknown`);
  assert.ok(result.acknowledged > 30, `only ${result.acknowledged} records were acknowledged`);
});

/** A producer as it must not be used: it lives on after a rejected batch. */
async function connectStubbornProducer(t: TestContext, connection: Setup): Promise<Producer> {
  const kafka = new Kafka({
    brokers: connection.brokers,
    clientId: 'test',
    logLevel: logLevel.NOTHING,
    retry: { retries: 1, initialRetryTime: 10 },
    socketFactory: ({ onConnect }) => connection.network.connect().once('connect', onConnect),
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
    send: async (messages) =>
      void (await producer.sendBatch({ topicMessages: [{ topic, messages }] })),
    close: async () => undefined,
  };
  // Both tries of every second batch lose their reply, so the batch is stored and rejected; the
  // next one is as long, is taken for a copy of it, and is acknowledged.
  let reply = 0;
  const result = await appendUnderLoss(connection, {
    rounds: 10,
    burst: () => 3,
    losesReply: () => reply++ % 3 !== 2,
    connect: async () => kept,
  });
  assert.notEqual(result.missing.length, 0);
});
