import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { withDeadline } from '@triplock/runtime';
import type {
  Consumer,
  ConsumerEndBatchProcessEvent,
  EachBatchHandler,
  EachBatchPayload,
  KafkaMessage,
  Message,
} from 'kafkajs';
import {
  fetchBytes,
  type AttachHooks,
  type BrokerConnection,
  type FetchedBatch,
  type GroupMember,
  type KafkaDriver,
  type Membership,
  type PartitionOffset,
  type RawProducer,
  type RawProducerOptions,
  type ReceivedHeaders,
  type ReceivedRecord,
  type Wanted,
} from '../driver.ts';
import { connectAdmin, judge, openKafkaClient } from './client.ts';

/** Kafka by kafkajs. */
export const kafkajs: KafkaDriver = {
  openProducer,
  connectAdmin,
  startMember,
  readStretches,
  // It reads null, and throws when it measures what it is to write (2.2.4).
  writesNullHeaders: false,
  judge,
};

function openProducer(options: RawProducerOptions): RawProducer {
  const { topic, sendLimitMs, pin } = options;
  const client = openKafkaClient(options, {
    requestTimeoutMs: sendLimitMs,
    // A moved leader or a closed connection is tried again within the batch's limit. These retries
    // are safe: they repeat the same sequence numbers.
    retry: { retries: 5, initialRetryTime: 50, maxRetryTime: 400 },
  });
  const producer = client.kafka.producer({
    idempotent: true,
    allowAutoTopicCreation: false,
    // The partition is in the message from its first try on, so that a topic that grows between two
    // tries does not send the same message under another partition's sequence numbers.
    createPartitioner: () => {
      return ({ message, partitionMetadata }) => pin(message, partitionMetadata.length);
    },
  });
  return {
    connect: () => producer.connect(),
    send: async (records) => {
      // Without null in headers, which nobody sends by who says that it cannot write them.
      const messages = records as Message[];
      const batch = { acks: -1, timeout: sendLimitMs, topicMessages: [{ topic, messages }] };
      const answers = await producer.sendBatch(batch);
      return answers.map(({ partition }) => partition);
    },
    disconnect: () => producer.disconnect(),
    destroy: () => {
      client.destroy();
      producer.disconnect().catch((error: unknown) => {
        options.logger.debug({ err: error }, 'a discarded producer did not disconnect');
      });
    },
  };
}

/** How long a rebalance waits for batches under way; a slower member is left out. */
const rebalanceMs = 20_000;
/** Partitions whose batches are under way at once. */
const partitionsConcurrently = 12;
const requestTimeoutMs = 5_000;
const joinLimitMs = 60_000;
const leaveLimitMs = 10_000;
const retry = { retries: 5, initialRetryTime: 100, maxRetryTime: 1_000 };
/** Longer than a rebalance and all tries of a request: whoever is silent so long is stuck. */
const standstillMs = 60_000;

/** Joins the group and consumes. Rejects when that fails or is called off; nothing is left then. */
async function startMember(
  membership: Membership,
  attach: AttachHooks,
  calledOff: Promise<never>,
): Promise<GroupMember> {
  const { groupId, topic, sessionTimeoutMs: sessionTimeout, heartbeatMs } = membership;
  const client = openKafkaClient(membership, { requestTimeoutMs, retry });
  const consumer = client.kafka.consumer({
    groupId,
    sessionTimeout,
    // Sent between fetches, and only if it is over by then: so each idle fetch is followed by one.
    heartbeatInterval: heartbeatMs,
    rebalanceTimeout: rebalanceMs,
    // A fetch ends as soon as there is a record, and an idle one after this, which a close or the
    // end of a pause may have to wait for.
    maxWaitTimeInMs: sessionTimeout / 4,
    maxBytes: fetchBytes.max,
    maxBytesPerPartition: fetchBytes.ofPartitionMax,
    allowAutoTopicCreation: false,
    // kafkajs would restart after some errors and stop for good after others. Here every crash ends
    // the member, and whoever started it starts another.
    retry: { ...retry, restartOnFailure: () => Promise.resolve(false) },
  });
  let latest: EachBatchPayload | undefined;
  const hooks = attach(async (offsets) => {
    await commit(offsets, { consumer, latest, topic });
    return new Map();
  });
  const ended = endOf(consumer);
  consumer.on('consumer.end_batch_process', ({ payload }) => {
    const { partition, batchSize, firstOffset, lastOffset, highWatermark } = payload;
    const [from, next] = [BigInt(firstOffset ?? lastOffset), BigInt(lastOffset) + 1n];
    if (batchSize === 0) hooks.skip({ partition, from, next, end: BigInt(highWatermark) });
  });
  consumer.on('consumer.group_join', ({ payload: { memberId, memberAssignment } }) =>
    hooks.joined(memberId, memberAssignment[topic] ?? []),
  );
  const eachBatch: EachBatchHandler = (payload) => {
    latest = payload;
    return hooks.eachBatch(fetchedBatch(payload));
  };
  const join = async () => {
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: partitionsConcurrently,
      eachBatch: gathering(eachBatch, membership.gatherMs ?? 0),
    });
  };
  const limit = { ms: joinLimitMs, what: 'the group that is joined' };
  try {
    await withDeadline(Promise.race([join(), ended, calledOff]), limit);
  } catch (error) {
    hooks.stop();
    client.destroy();
    throw error;
  }
  return {
    ended,
    leave: async () => {
      const leaving = { ms: leaveLimitMs, what: 'the group that is left' };
      await withDeadline(consumer.disconnect(), leaving).finally(() => {
        hooks.stop();
        client.destroy();
      });
    },
  };
}

type Committing = { consumer: Consumer; latest: EachBatchPayload | undefined; topic: string };

/** Not by the consumer where there is a batch: when it stops, it resolves and commits nothing. */
async function commit(
  offsets: readonly PartitionOffset[],
  { consumer, latest, topic }: Committing,
): Promise<void> {
  const partitions = offsets.map(({ partition, offset }) => ({ partition, offset: `${offset}` }));
  if (latest === undefined) {
    await consumer.commitOffsets(partitions.map((at) => ({ topic, ...at })));
  } else await latest.commitOffsetsIfNecessary({ topics: [{ topic, partitions }] });
}

function fetchedBatch(payload: EachBatchPayload): FetchedBatch {
  const { topic, partition, messages, highWatermark } = payload.batch;
  return {
    partition,
    records: messages.map((message) => receivedRecord({ topic, partition }, message)),
    // Untyped in kafkajs.
    from: BigInt((payload.batch as unknown as { fetchedOffset: string }).fetchedOffset),
    next: BigInt(payload.batch.lastOffset()) + 1n,
    end: BigInt(highWatermark),
    heartbeat: payload.heartbeat,
    isStale: payload.isStale,
    // What was resolved last lies before it, and may be no record.
    goOnFrom: (offset) => payload.resolveOffset(`${offset - 1n}`),
    pause: payload.pause,
  };
}

/** A record with where it came from, its bytes as they came. */
function receivedRecord(
  source: { topic: string; partition: number },
  message: KafkaMessage,
): ReceivedRecord {
  return {
    topic: source.topic,
    partition: source.partition,
    offset: BigInt(message.offset),
    key: message.key,
    value: message.value,
    headers: headersOf(message),
    timestamp: message.timestamp,
  };
}

/**
 * kafkajs gives bytes or null for what it read, one value or a list; strings only go the other way.
 * It takes what objects inherit, as `constructor`, for a header that it read before this one of the
 * same name (2.2.4).
 */
function headersOf({ headers = {} }: KafkaMessage): ReceivedHeaders {
  const read = headers as ReceivedHeaders;
  if (!Object.keys(read).some((name) => name in Object.prototype)) return read;
  const repaired = Object.entries(read).map(([name, values]) => {
    if (!(name in Object.prototype)) return [name, values] as const;
    const [, ...received] = values as readonly (Buffer | null)[];
    return [name, received.length === 1 ? received[0] : received] as const;
  });
  return Object.fromEntries(repaired);
}

/**
 * Handles a batch and holds up the next fetch for as long as more is to gather. A batch with more
 * behind it holds up none; but a fetch waits for all batches of the one before it.
 */
function gathering(eachBatch: EachBatchHandler, gatherMs: number): EachBatchHandler {
  return async (payload) => {
    const soonest = performance.now() + gatherMs;
    await eachBatch(payload);
    const { batch } = payload;
    const isAtEnd = BigInt(batch.lastOffset()) + 1n >= BigInt(batch.highWatermark);
    const earlyMs = soonest - performance.now();
    if (isAtEnd && payload.isRunning() && earlyMs > 0) await delay(earlyMs);
  };
}

/**
 * Rejects when kafkajs reports a crash, or when nothing happens any more although it reports none.
 */
function endOf(consumer: Consumer): Promise<never> {
  const ended = new Promise<never>((_resolve, reject) => {
    const standstill = setTimeout(
      () => reject(new Error(`the consumer made no progress for ${standstillMs} ms`)),
      standstillMs,
    );
    consumer.on('consumer.fetch', () => void standstill.refresh());
    consumer.on('consumer.heartbeat', () => void standstill.refresh());
    consumer.on('consumer.disconnect', () => clearTimeout(standstill));
    consumer.on('consumer.crash', (event) => {
      clearTimeout(standstill);
      reject(event.payload.error);
    });
  });
  // It may end while nobody listens: during a close the end is no news.
  ended.catch(() => undefined);
  return ended;
}

type Fetched = ConsumerEndBatchProcessEvent['payload'];

const readTimeoutMs = 10_000;

/** Reads as the only member of a group of its own, which is deleted again. */
async function readStretches(
  options: BrokerConnection & { topic: string },
  { stretches, take, withinMs, isEnough }: Wanted,
): Promise<void> {
  const { topic } = options;
  const missing = new Map(stretches.map((stretch) => [stretch.partition, { ...stretch }]));
  const done = Promise.withResolvers<void>();
  /** What is still to be read there; a batch fetched before the seek begins at the topic's end. */
  const stretchAt = (partition: number, firstOffset: string | null) => {
    const stretch = missing.get(partition);
    const first = BigInt(firstOffset ?? -1);
    return stretch !== undefined && first >= 0n && first < stretch.to ? stretch : undefined;
  };
  const eachBatch = async ({ batch }: EachBatchPayload) => {
    const stretch = stretchAt(batch.partition, batch.firstOffset());
    if (stretch === undefined) return;
    const received = batch.messages.map((message) => receivedRecord(batch, message));
    take(received.filter(({ offset: at }) => at >= stretch.from && at < stretch.to));
  };
  // After each fetch, also of one that held no record: `eachBatch` sees no transaction's marker.
  const pass = ({ partition, firstOffset, lastOffset }: Fetched) => {
    const stretch = stretchAt(partition, firstOffset);
    if (stretch === undefined) return;
    const next = BigInt(lastOffset) + 1n;
    if (next > stretch.from) stretch.from = next;
    if (stretch.from >= stretch.to || isEnough?.(partition) === true) missing.delete(partition);
    if (missing.size === 0) done.resolve();
  };
  const late = setTimeout(() => done.reject(new Error(`${topic} was not read in time`)), withinMs);
  const limits = { requestTimeoutMs: readTimeoutMs, retry: { retries: 5 } };
  const client = openKafkaClient(options, limits);
  const groupId = `${options.clientId}-reader-${randomBytes(6).toString('hex')}`;
  // A batch is awaited for less long than by default, which is for services that share work.
  const consumer = client.kafka.consumer({ groupId, maxWaitTimeInMs: 100 });
  consumer.on('consumer.crash', ({ payload }) => done.reject(payload.error));
  consumer.on('consumer.end_batch_process', ({ payload }) => pass(payload));
  try {
    await consumer.connect();
    await consumer.subscribe({ topic });
    await consumer.run({ autoCommit: false, eachBatch });
    for (const { partition, from } of [...missing.values()]) {
      consumer.seek({ topic, partition, offset: from.toString() });
    }
    await done.promise;
  } finally {
    clearTimeout(late);
    await consumer.disconnect();
    const admin = client.kafka.admin();
    await admin.connect();
    await admin.deleteGroups([groupId]).finally(() => admin.disconnect());
    client.destroy();
  }
}
