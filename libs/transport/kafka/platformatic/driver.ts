import {
  Admin,
  ConfigResourceTypes,
  FetchIsolationLevels,
  ListOffsetTimestamps,
  ProduceAcks,
  Producer,
  type MessageToProduce,
} from '@platformatic/kafka';
import type {
  BrokerAdmin,
  BrokerConnection,
  KafkaDriver,
  OutgoingHeaders,
  OutgoingRecord,
  RawProducer,
  RawProducerOptions,
} from '../driver.ts';
import { clientOptions, destroyClient, judge, prepare } from './client.ts';
import { readStretches } from './fetches.ts';
import { startMember } from './member.ts';

/** Kafka by @platformatic/kafka. */
export const platformatic: KafkaDriver = {
  openProducer,
  connectAdmin,
  startMember,
  readStretches,
  writesNullHeaders: true,
  judge,
};

/** How long a topic's partitions and leaders are taken as known; an error makes them unknown. */
const metadataMaxAgeMs = 300_000;

/** An idempotent producer of one topic. */
function openProducer(options: RawProducerOptions): RawProducer {
  const { topic, sendLimitMs, pin } = options;
  // A moved leader or a closed connection is tried again within the batch's limit. These tries are
  // safe: they repeat the same sequence numbers. Where a broker has lost what it knew of the
  // producer, the library sends the batch once more by another id: it may then be there twice.
  const limits = { requestTimeoutMs: sendLimitMs, retries: 5, retryDelayMs: 100 };
  const producer = new Producer<Buffer | null, Buffer | null, Buffer, Buffer | null>({
    ...clientOptions(options, limits),
    metadataMaxAge: metadataMaxAgeMs,
    idempotent: true,
  });
  prepare(producer.connections, options);
  return {
    connect: async () => void (await producer.initIdempotentProducer({})),
    send: async (records) => {
      const { topics } = await producer.metadata({ topics: [topic] });
      const { partitionsCount } = topics.get(topic)!;
      const messages = records.map((record) => {
        return toMessage(record, {
          topic,
          partition: pin(record, partitionsCount),
          partitionsCount,
        });
      });
      const { offsets = [] } = await producer.send({ messages, acks: ProduceAcks.ALL });
      return offsets.map(({ partition }) => partition);
    },
    disconnect: () => producer.close(),
    destroy: () => destroyClient(producer, options),
  };
}

type Outgoing = MessageToProduce<Buffer | null, Buffer | null, Buffer, Buffer | null>;

function toMessage(
  record: OutgoingRecord,
  {
    topic,
    partition,
    partitionsCount,
  }: { topic: string; partition: number; partitionsCount: number },
): Outgoing {
  // The library would take another partition without a word.
  if (partition >= partitionsCount) throw new Error(`topic ${topic} has no partition ${partition}`);
  return {
    topic,
    partition,
    key: bytesOf(record.key),
    value: bytesOf(record.value),
    headers: new Map(headerPairs(record.headers)),
  };
}

function bytesOf(text: Buffer | string | null | undefined): Buffer | null {
  return typeof text === 'string' ? Buffer.from(text) : (text ?? null);
}

/** Names as bytes are equal to no other: a header may be there several times. */
function headerPairs(headers: OutgoingHeaders = {}): [Buffer, Buffer | null][] {
  return Object.entries(headers).flatMap(([name, values]) =>
    (values === undefined ? [] : [values].flat()).map((value): [Buffer, Buffer | null] => {
      return [Buffer.from(name), bytesOf(value)];
    }),
  );
}

/** Opens a client to ask; it connects with the first question. */
function connectAdmin(connection: BrokerConnection, limitMs: number) {
  const limits = { requestTimeoutMs: limitMs, retries: 3, retryDelayMs: 100 };
  const admin = new Admin(clientOptions(connection, limits));
  prepare(admin.connections, connection);
  return { admin: Promise.resolve(asking(admin)), destroy: () => destroyClient(admin, connection) };
}

function asking(admin: Admin): BrokerAdmin {
  const partitionsOf = async (topic: string) => {
    const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true });
    return topics.get(topic)!.partitions;
  };
  const offsetsAt = async (topic: string, count: number, timestamp: bigint) => {
    const partitions = Array.from({ length: count }, (_, partitionIndex) => {
      return { partitionIndex, timestamp };
    });
    // What a member reads: up to the first transaction that is open.
    const isolationLevel = FetchIsolationLevels.READ_COMMITTED;
    const listed = await admin.listOffsets({
      topics: [{ name: topic, partitions }],
      isolationLevel,
    });
    const offsets = listed.flatMap((each) => each.partitions);
    return new Map(offsets.map(({ partitionIndex, offset }) => [partitionIndex, offset]));
  };
  return {
    bounds: async (topic) => {
      const { length } = await partitionsOf(topic);
      const starts = await offsetsAt(topic, length, ListOffsetTimestamps.EARLIEST);
      const ends = await offsetsAt(topic, length, ListOffsetTimestamps.LATEST);
      return new Map(
        [...ends].map(([partition, end]) => [partition, { start: starts.get(partition)!, end }]),
      );
    },
    since: async (topic, time) => {
      const { length } = await partitionsOf(topic);
      const ends = await offsetsAt(topic, length, ListOffsetTimestamps.LATEST);
      const found = await offsetsAt(topic, length, BigInt(time.getTime()));
      return new Map(
        [...found].map(([partition, offset]) => [
          partition,
          offset < 0n ? ends.get(partition)! : offset,
        ]),
      );
    },
    committed: async ({ groupId, topic }) => {
      const partitionIndexes = (await partitionsOf(topic)).map((_, partition) => partition);
      const asked = { groupId, topics: [{ name: topic, partitionIndexes }] };
      const groups = await admin.listConsumerGroupOffsets({ groups: [asked] });
      const partitions = groups.flatMap(({ topics }) => topics.flatMap((each) => each.partitions));
      return new Map(
        partitions.map(({ partitionIndex, committedOffset }) => [partitionIndex, committedOffset]),
      );
    },
    moveGroup: async ({ groupId, topic }, offsets) => {
      const partitionOffsets = [...offsets].map(([partition, offset]) => ({ partition, offset }));
      const topics = [{ name: topic, partitionOffsets }];
      await admin.alterConsumerGroupOffsets({ groupId, topics });
    },
    members: async (groupId) => {
      const groups = await admin.describeGroups({ groups: [groupId] });
      const members = [...groups.values()].flatMap((group) => [...group.members.values()]);
      return members.map(({ clientId }) => clientId);
    },
    replicas: async (topic) => (await partitionsOf(topic)).map(({ replicas }) => replicas.length),
    config: async (topic) => {
      const resources = [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }];
      const described = await admin.describeConfigs({ resources });
      const entries = described.flatMap(({ configs }) => configs);
      return new Map(entries.flatMap(({ name, value }) => (value == null ? [] : [[name, value]])));
    },
  };
}
