import { setTimeout as delay } from 'node:timers/promises';
import type { Admin, ITopicConfig } from 'kafkajs';
import { CommandError } from '@triplock/command';
import type { Names } from '../names.ts';
import { askPubSub, pubsubName } from '../parts/pubsub.ts';

// A dead letter is the largest record that the accepted topic takes (1 MiB) and our headers; were
// it refused, its partition would stand still.
const deadLetterBytesMax = { name: 'max.message.bytes', value: String(2 * 1024 * 1024) };

// The broker stores records unpacked, whoever produced them: kafkajs reads no compression but gzip,
// and the limit on a record's size then counts what a consumer really gets.
const unpacked = { name: 'compression.type', value: 'uncompressed' };

// Retention goes by a record's time, so the broker gives it: a gateway whose clock is a week behind
// would have its records dropped at once.
const stampedByBroker = { name: 'message.timestamp.type', value: 'LogAppendTime' };

/**
 * Partitions bound how many workers share the load, and each gathers batches of its own: four are
 * as many as one machine's workers can use. Dead letters are few.
 */
function topicsOf({ acceptedTopic, deadLetterTopic, toldTopic }: Names): ITopicConfig[] {
  return [
    { topic: acceptedTopic, numPartitions: 4, configEntries: [unpacked, stampedByBroker] },
    {
      topic: deadLetterTopic,
      numPartitions: 3,
      configEntries: [deadLetterBytesMax, unpacked, stampedByBroker],
    },
    // Read by nobody until a database was set back, and then whole.
    { topic: toldTopic, numPartitions: 1, configEntries: [unpacked, stampedByBroker] },
  ];
}

/** Makes the topics that are missing; what is there keeps its partitions and its records. */
export function createKafkaTopics(brokers: string, names: Names): Promise<void> {
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

/** Longer than any consumer holds a message before it acknowledges or gives it back. */
const ackDeadlineSeconds = 30;

/**
 * `made`: something was missing, as after a start of an emulator, which has then lost its events.
 */
export type SubscriptionsOutcome = { outcome: 'made' | 'were there' };

/**
 * Makes the events topic and every subscription that is missing, through the emulator's REST
 * interface. The emulator forgets them with everything else when it stops; and what is published
 * before a subscription exists never reaches it.
 */
export async function createSubscriptions(
  emulator: string,
  names: Names,
): Promise<SubscriptionsOutcome> {
  const topic = `topics/${names.eventsTopic}`;
  const puts = [await put(emulator, topic, {})];
  for (const name of Object.values(names.subscriptions)) {
    const options = { topic: pubsubName(topic), enableMessageOrdering: true, ackDeadlineSeconds };
    puts.push(await put(emulator, `subscriptions/${name}`, options));
  }
  return { outcome: puts.includes('made') ? 'made' : 'were there' };
}

async function put(emulator: string, name: string, body: object): Promise<'made' | 'was there'> {
  const { status, ok, text } = await askPubSub(emulator, { method: 'PUT', name, body });
  if (ok) return 'made';
  if (status === 409) return 'was there';
  throw new CommandError(`pubsub: making ${name} failed: ${status} ${text}`);
}

/** Has Kafka administered for a moment. `brokers`: `host:port`, several separated by commas. */
export async function withKafkaAdmin<Result>(
  brokers: string,
  work: (admin: Admin) => Promise<Result>,
): Promise<Result> {
  const { Kafka, logLevel } = await import('kafkajs');
  const admin = new Kafka({
    clientId: 'launcher',
    brokers: brokers.split(','),
    logLevel: logLevel.ERROR,
  }).admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}
