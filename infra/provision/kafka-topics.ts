import { topics } from '@triplock/contracts';
import { Kafka, logLevel } from 'kafkajs';

/** Partitions bound how many workers share the load; dead letters are few. */
const wanted = [
  { topic: topics.accepted, numPartitions: 12 },
  { topic: topics.deadLetter, numPartitions: 3 },
];

/** Makes the topics that are missing; what is there keeps its partitions and its records. */
export async function createKafkaTopics(brokers: string): Promise<void> {
  const admin = new Kafka({
    clientId: 'launcher',
    brokers: brokers.split(','),
    logLevel: logLevel.ERROR,
  }).admin();
  await admin.connect();
  try {
    const existing = new Set(await admin.listTopics());
    const missing = wanted.filter(({ topic }) => !existing.has(topic));
    if (missing.length > 0) await admin.createTopics({ topics: missing, waitForLeaders: true });
  } finally {
    await admin.disconnect();
  }
}
