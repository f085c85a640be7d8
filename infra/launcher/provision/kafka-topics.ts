import { setTimeout as delay } from 'node:timers/promises';
import type { Admin, ITopicConfig } from 'kafkajs';
import { usualNames, type Names } from '../names.ts';
import { withKafkaAdmin } from './kafka-admin.ts';

// A dead letter is the largest record that the accepted topic takes (1 MiB) and our headers; were
// it refused, its partition would stand still.
const deadLetterBytesMax = { name: 'max.message.bytes', value: String(2 * 1024 * 1024) };

// The broker stores records unpacked, whoever produced them: kafkajs reads no compression but gzip,
// and the limit on a record's size then counts what a consumer really gets.
const unpacked = { name: 'compression.type', value: 'uncompressed' };

type TopicNames = Pick<Names, 'acceptedTopic' | 'deadLetterTopic'>;

/** Partitions bound how many workers share the load; dead letters are few. */
function topicsOf({ acceptedTopic, deadLetterTopic }: TopicNames): ITopicConfig[] {
  const letters = [deadLetterBytesMax, unpacked];
  return [
    { topic: acceptedTopic, numPartitions: 12, configEntries: [unpacked] },
    { topic: deadLetterTopic, numPartitions: 3, configEntries: letters },
  ];
}

/** Makes the topics that are missing; what is there keeps its partitions and its records. */
export function createKafkaTopics(brokers: string, names: TopicNames = usualNames): Promise<void> {
  return withKafkaAdmin(brokers, async (admin) => {
    const wanted = topicsOf(names);
    const existing = new Set(await admin.listTopics());
    const missing = wanted.filter(({ topic }) => !existing.has(topic));
    if (missing.length > 0) await admin.createTopics({ topics: missing, waitForLeaders: false });
    await waitForLeaders(
      admin,
      wanted.map(({ topic }) => topic),
    );
  });
}

const leadersWithinMs = 15_000;

/**
 * A new topic is unknown to the broker for a moment. kafkajs's own wait takes that for a failure of
 * the creation and gives up.
 */
async function waitForLeaders(admin: Admin, topicNames: string[]): Promise<void> {
  const deadline = performance.now() + leadersWithinMs;
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
