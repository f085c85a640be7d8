import { randomBytes } from 'node:crypto';
import { Kafka, logLevel, type Admin, type Message } from 'kafkajs';
import { eventually } from './eventually.ts';
import type { Cleanup } from './isolation.ts';
import { testPart } from './parts.ts';

/** Where a test's records go. */
export type TestTopic = { brokers: string[]; topic: string };

/**
 * How a test wants its topic; `compression` is Kafka's `compression.type`, `batchBytesMax` its
 * `max.message.bytes`, `timestamps` its `message.timestamp.type`: with `CreateTime` a test makes up
 * the times of its records.
 */
export type TopicShape = {
  partitions?: number;
  compression?: string;
  batchBytesMax?: number;
  timestamps?: 'LogAppendTime' | 'CreateTime';
};

/** The shape of a topic that a worker may set dead letters aside in. */
export const ofDeadLetters: TopicShape = { batchBytesMax: 2 * 1024 * 1024 };

/** For appends that are a test's means and not what it tests: a busy machine is no failure. */
export const patientAppends = { timeoutMs: 60_000 } as const;

/**
 * A Kafka topic of one test's own, deleted after it. By default it stores records unpacked, at the
 * broker's time, as in production.
 */
export async function createTestTopic(test: Cleanup, shape: TopicShape = {}): Promise<TestTopic> {
  const topic = `test.${randomBytes(8).toString('hex')}`;
  const brokers = [await testPart('kafka')];
  await withAdmin(brokers, (admin) => create(admin, topic, shape));
  test.after(() => withAdmin(brokers, (admin) => admin.deleteTopics({ topics: [topic] })));
  return { brokers, topic };
}

/** Deletes a topic with all that it holds and makes it anew, under the same name. */
export async function recreateTestTopic({ brokers, topic }: TestTopic): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    await admin.deleteTopics({ topics: [topic] });
    await eventually(async () => !(await admin.listTopics()).includes(topic));
    await create(admin, topic, {});
  });
}

/** Adds partitions to a topic until it has so many. */
export async function growTestTopic({ brokers, topic }: TestTopic, count: number): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    await admin.createPartitions({ topicPartitions: [{ topic, count }] });
    await eventually(async () => (await admin.fetchTopicOffsets(topic)).length === count);
  });
}

/** Drops every record of a topic, as retention does; its offsets go on. */
export async function emptyTestTopic({ brokers, topic }: TestTopic): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    // kafkajs deletes nothing of a topic that it has not met.
    const partitions = await admin.fetchTopicOffsets(topic);
    await admin.deleteTopicRecords({ topic, partitions });
  });
}

/**
 * Writes one record as MirrorMaker, Connect and restores do: in a transaction, whose end leaves a
 * marker (control record) behind it in the partition. Of one that is aborted nothing is a record.
 * The broker answers before the marker is there, behind which alone the record is read: it is
 * waited for.
 */
export async function appendInTransaction(
  { brokers, topic }: TestTopic,
  { message, end }: { message: Message; end: 'commit' | 'abort' },
): Promise<void> {
  const readable = () =>
    withAdmin(brokers, async (admin) => {
      const partitions = await admin.fetchTopicOffsets(topic);
      return partitions.reduce((sum, { high }) => sum + Number(high), 0);
    });
  const before = await readable();
  const kafka = new Kafka({ clientId: 'test', brokers, logLevel: logLevel.NOTHING });
  const producer = kafka.producer({
    transactionalId: randomBytes(8).toString('hex'),
    idempotent: true,
    maxInFlightRequests: 1,
  });
  await producer.connect();
  try {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [message] });
    await transaction[end]();
  } finally {
    await producer.disconnect();
  }
  await eventually(async () => (await readable()) >= before + 2);
}

/**
 * Commits a group's next offset of partition 0, as its only member. kafkajs's own `setOffsets`
 * waits until an empty fetch has timed out, 5 s.
 */
export async function commitTestOffset(
  { brokers, topic }: TestTopic,
  { groupId, offset }: { groupId: string; offset: number },
): Promise<void> {
  const kafka = new Kafka({ clientId: 'test', brokers, logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 50 });
  const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve));
  await consumer.connect();
  try {
    await consumer.subscribe({ topics: [topic] });
    await consumer.run({ autoCommit: false, eachBatch: async () => undefined });
    // It would look for what is there, and commit something else where it finds nothing.
    consumer.pause([{ topic }]);
    await joined;
    await consumer.commitOffsets([{ topic, partition: 0, offset: `${offset}` }]);
  } finally {
    await consumer.disconnect();
  }
}

async function create(admin: Admin, topic: string, shape: TopicShape): Promise<void> {
  const { partitions: numPartitions = 1, compression = 'uncompressed', batchBytesMax } = shape;
  const configEntries = [
    { name: 'compression.type', value: compression },
    { name: 'message.timestamp.type', value: shape.timestamps ?? 'LogAppendTime' },
  ];
  if (batchBytesMax !== undefined) {
    configEntries.push({ name: 'max.message.bytes', value: `${batchBytesMax}` });
  }
  const topics = [{ topic, numPartitions, replicationFactor: 1, configEntries }];
  // kafkajs's own wait for leaders fails when the broker does not know the topic for a moment.
  await admin.createTopics({ topics, waitForLeaders: false });
  // A broker that is told to be a leader may still refuse as one for a moment: an answer is proof.
  await eventually(async () => (await admin.fetchTopicOffsets(topic)).length === numPartitions);
}

async function withAdmin<Result>(
  brokers: string[],
  work: (admin: Admin) => Promise<Result>,
): Promise<Result> {
  const admin = new Kafka({ clientId: 'test', brokers, logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}
