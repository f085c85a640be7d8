import { setTimeout as delay } from 'node:timers/promises';
import { topics } from '@triplock/contracts';
import { Kafka, logLevel, type Admin } from 'kafkajs';

// A dead letter is the largest record that the accepted topic takes (1 MiB) and our headers; were
// it refused, its partition would stand still.
const deadLetterBytesMax = { name: 'max.message.bytes', value: String(2 * 1024 * 1024) };

// The broker stores records unpacked, whoever produced them: kafkajs reads no compression but gzip,
// and the limit on a record's size then counts what a consumer really gets.
const unpacked = { name: 'compression.type', value: 'uncompressed' };

/** Partitions bound how many workers share the load; dead letters are few. */
const wanted = [
  { topic: topics.accepted, numPartitions: 12, configEntries: [unpacked] },
  { topic: topics.deadLetter, numPartitions: 3, configEntries: [deadLetterBytesMax, unpacked] },
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
    if (missing.length > 0) await admin.createTopics({ topics: missing, waitForLeaders: false });
    await waitForLeaders(admin);
  } finally {
    await admin.disconnect();
  }
}

const leadersWithinMs = 15_000;

/**
 * A new topic is unknown to the broker for a moment. kafkajs's own wait takes that for a failure of
 * the creation and gives up.
 */
async function waitForLeaders(admin: Admin): Promise<void> {
  const deadline = performance.now() + leadersWithinMs;
  const topicNames = wanted.map(({ topic }) => topic);
  for (;;) {
    try {
      const { topics: known } = await admin.fetchTopicMetadata({ topics: topicNames });
      if (known.every(({ partitions }) => partitions.every(({ leader }) => leader >= 0))) return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    if (performance.now() > deadline) throw new Error('the Kafka topics got no leaders');
    await delay(100);
  }
}
