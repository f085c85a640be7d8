import { randomBytes } from 'node:crypto';
import { Kafka, logLevel, type Admin } from 'kafkajs';
import { eventually } from './eventually.ts';
import type { Cleanup } from './isolation.ts';
import { testPart } from './parts.ts';

/** Where a test's records go. */
export type TestTopic = { brokers: string[]; topic: string };

/**
 * How a test wants its topic; `compression` is Kafka's `compression.type`, `batchBytesMax` its
 * `max.message.bytes`.
 */
export type TopicShape = { partitions?: number; compression?: string; batchBytesMax?: number };

/** The shape of a topic that a worker may set dead letters aside in. */
export const ofDeadLetters: TopicShape = { batchBytesMax: 2 * 1024 * 1024 };

/** A Kafka topic of one test's own, deleted after it. It stores records unpacked by default. */
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

/** Drops every record of a topic, as retention does; its offsets go on. */
export async function emptyTestTopic({ brokers, topic }: TestTopic): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    // kafkajs deletes nothing of a topic that it has not met.
    const partitions = await admin.fetchTopicOffsets(topic);
    await admin.deleteTopicRecords({ topic, partitions });
  });
}

/** Commits a group's next offset of partition 0. It takes some seconds, as the group is joined. */
export async function commitTestOffset(
  { brokers, topic }: TestTopic,
  { groupId, offset }: { groupId: string; offset: number },
): Promise<void> {
  const partitions = [{ partition: 0, offset: `${offset}` }];
  await withAdmin(brokers, (admin) => admin.setOffsets({ groupId, topic, partitions }));
}

async function create(admin: Admin, topic: string, shape: TopicShape): Promise<void> {
  const { partitions: numPartitions = 1, compression = 'uncompressed', batchBytesMax } = shape;
  const configEntries = [{ name: 'compression.type', value: compression }];
  if (batchBytesMax !== undefined) {
    configEntries.push({ name: 'max.message.bytes', value: `${batchBytesMax}` });
  }
  const topics = [{ topic, numPartitions, replicationFactor: 1, configEntries }];
  // kafkajs's own wait for leaders fails when the broker does not know the topic for a moment.
  await admin.createTopics({ topics, waitForLeaders: false });
  // A broker that is told to be a leader may still refuse as one for a moment: an answer is proof.
  await eventually(async () => (await admin.fetchTopicOffsets(topic)).length === numPartitions);
}

async function withAdmin(
  brokers: string[],
  work: (admin: Admin) => Promise<unknown>,
): Promise<void> {
  const admin = new Kafka({ clientId: 'test', brokers, logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  try {
    await work(admin);
  } finally {
    await admin.disconnect();
  }
}
