import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic } from '@triplock/testing';
import { Kafka, logLevel, type Message, type Producer } from 'kafkajs';
import { appendInBatches, type AppendLimits } from './group-commit.ts';
import { connectProducer, type IdempotentProducer } from './producer.ts';
import { ProduceUnknownError } from './append-queue.ts';
import { openLossyNetwork, type LossyNetwork } from '../test/bad-network.ts';
import { readTopic } from '../test/topic.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
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

test('no acknowledged record is missing from the topic, however many replies are lost', async (t) => {
  const connection = await setUp(t, 3);
  const { brokers, topic, network } = connection;
  const { connect } = network;
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
      return connectProducer({ brokers, clientId: 'test', logger, connect, topic, sendLimitMs });
    },
  });
  assert.deepEqual(missing, []);
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
  const { missing } = await appendUnderLoss(connection, {
    rounds: 5,
    burst: () => 3,
    losesReply: () => reply++ % 3 !== 2,
    connect: async () => kept,
  });
  assert.notEqual(missing.length, 0);
});
