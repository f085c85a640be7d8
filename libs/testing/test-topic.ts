import { randomBytes } from 'node:crypto';
import { Kafka, logLevel, type Admin } from 'kafkajs';
import { testEndpoints } from './endpoints.ts';
import { eventually } from './eventually.ts';
import type { Cleanup } from './test-database.ts';

/** A Kafka topic of one test's own, deleted after it. */
export async function createTestTopic(
  test: Cleanup,
  shape: { partitions: number } = { partitions: 1 },
): Promise<{ brokers: string[]; topic: string }> {
  const topic = `test.${randomBytes(8).toString('hex')}`;
  const brokers = [(await testEndpoints()).kafka];
  const topics = [{ topic, numPartitions: shape.partitions, replicationFactor: 1 }];
  await withAdmin(brokers, async (admin) => {
    // kafkajs's own wait for leaders fails when the broker does not know the topic for a moment.
    await admin.createTopics({ topics, waitForLeaders: false });
    await eventually(() => hasLeaders(admin, topic));
  });
  test.after(() => withAdmin(brokers, (admin) => admin.deleteTopics({ topics: [topic] })));
  return { brokers, topic };
}

async function hasLeaders(admin: Admin, topic: string): Promise<boolean> {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  return topics[0]!.partitions.every(({ leader }) => leader >= 0);
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
