import { randomBytes } from 'node:crypto';
import type { ConsumerEndBatchProcessEvent, EachBatchPayload } from 'kafkajs';
import { openInquiry, type Inquiry } from './admin.ts';
import { openKafkaClient, type BrokerConnection } from './client.ts';
import { receivedRecord, type ReceivedRecord } from './record-batches.ts';
import { partitionOfKey } from './producer.ts';

/** Records of one key, in order. */
export type KeyedRecords = {
  partition: number;
  records: ReceivedRecord[];
  /** False when there was more to read than one look takes. */
  complete: boolean;
};

/**
 * Looks into a topic as an operator does: each look goes up to the topic's end of now, commits
 * nothing and leaves no group on the broker. It rejects when that takes more than a minute.
 */
export type TopicReader = {
  /** Every record with this key, if the first of them is not older than `since`. */
  ofKey(key: string, since: Date): Promise<KeyedRecords>;
  /** The newest 10,000 records of each partition, oldest first. */
  newest(): Promise<ReceivedRecord[]>;
  at(partition: number, offset: bigint): Promise<ReceivedRecord | undefined>;
  close(): Promise<void>;
};

/** A stretch of one partition: from the first offset up to, and without, the second. */
type Stretch = { partition: number; from: bigint; to: bigint };

/** Enough for minutes of heavy load after a payment, and read within seconds. */
const keyedRecordsMax = 200_000n;
const newestMax = 10_000n;
const scanMaxMs = 60_000;
const requestTimeoutMs = 10_000;
/** Clocks of a producer and a broker may differ by this much. */
const clockSlackMs = 60_000;

/** Opens a reader; it connects at its first look. */
export function openTopicReader(options: BrokerConnection & { topic: string }): TopicReader {
  const inquiry = openInquiry(options);
  const scanning = (wanted: Wanted) => scan(options, inquiry, wanted);
  return {
    ofKey: async (key, since) => {
      const { last, ...stretch } = await stretchOfKey(inquiry, { ...options, key, since });
      const to = last < stretch.to ? last : stretch.to;
      const isWanted = (record: ReceivedRecord) => record.key?.toString() === key;
      const records = await scanning({ stretches: [{ ...stretch, to }], isWanted });
      return { partition: stretch.partition, records, complete: to === stretch.to };
    },
    newest: async () => {
      const stretches = (await wholeTopic(inquiry, options.topic)).map(({ from, to, ...rest }) => {
        return { ...rest, from: to - from > newestMax ? to - newestMax : from, to };
      });
      const records = await scanning({ stretches, isWanted: () => true });
      return records.sort((one, other) => Number(one.timestamp) - Number(other.timestamp));
    },
    at: async (partition, offset) => {
      const all = await wholeTopic(inquiry, options.topic);
      const there = all.find((each) => each.partition === partition);
      if (there === undefined || offset < there.from || offset >= there.to) return undefined;
      const stretches = [{ partition, from: offset, to: offset + 1n }];
      const [record] = await scanning({ stretches, isWanted: () => true });
      return record;
    },
    close: () => inquiry.close(),
  };
}

async function wholeTopic(inquiry: Inquiry, topic: string): Promise<Stretch[]> {
  const ends = await inquiry.ask((admin) => admin.fetchTopicOffsets(topic));
  return ends.map(({ partition, low, high }) => {
    return { partition, from: BigInt(low), to: BigInt(high) };
  });
}

/** Where records of a key can be; `last` bounds how far one look goes. */
async function stretchOfKey(
  inquiry: Inquiry,
  { topic, key, since }: { topic: string; key: string; since: Date },
): Promise<Stretch & { last: bigint }> {
  const all = await wholeTopic(inquiry, topic);
  const fromMs = since.getTime() - clockSlackMs;
  const starts = await inquiry.ask((admin) => admin.fetchTopicOffsetsByTimestamp(topic, fromMs));
  const partition = partitionOfKey(key, all.length);
  const { to } = all.find((each) => each.partition === partition)!;
  const start = BigInt(starts.find((each) => each.partition === partition)!.offset);
  // kafkajs answers -1 when no record is that young.
  const from = start < 0n ? to : start;
  return { partition, from, to, last: from + keyedRecordsMax };
}

type Fetched = ConsumerEndBatchProcessEvent['payload'];
type Wanted = { stretches: readonly Stretch[]; isWanted: (record: ReceivedRecord) => boolean };

async function scan(
  options: BrokerConnection & { topic: string },
  inquiry: Inquiry,
  { stretches, isWanted }: Wanted,
): Promise<ReceivedRecord[]> {
  const missing = new Map(
    stretches
      .filter(({ from, to }) => from < to)
      .map((stretch) => [stretch.partition, { ...stretch }]),
  );
  if (missing.size === 0) return [];
  const { topic } = options;
  const records: ReceivedRecord[] = [];
  const done = Promise.withResolvers<void>();
  /** What is still to be read there; a batch fetched before the seek begins at the topic's end. */
  const stretchAt = (partition: number, firstOffset: string | null) => {
    const stretch = missing.get(partition);
    const first = BigInt(firstOffset ?? -1);
    return stretch !== undefined && first >= 0n && first < stretch.to ? stretch : undefined;
  };
  const take = async ({ batch }: EachBatchPayload) => {
    const stretch = stretchAt(batch.partition, batch.firstOffset());
    if (stretch === undefined) return;
    const received = batch.messages.map((message) => receivedRecord(batch, message));
    const inside = received.filter(({ offset: at }) => at >= stretch.from && at < stretch.to);
    records.push(...inside.filter(isWanted));
  };
  // After each fetch, also of one that held no record: `take` sees no transaction's marker.
  const pass = ({ partition, firstOffset, lastOffset }: Fetched) => {
    const stretch = stretchAt(partition, firstOffset);
    if (stretch === undefined) return;
    const next = BigInt(lastOffset) + 1n;
    if (next > stretch.from) stretch.from = next;
    if (stretch.from >= stretch.to) missing.delete(partition);
    if (missing.size === 0) done.resolve();
  };
  const late = setTimeout(() => done.reject(new Error(`${topic} was not read in time`)), scanMaxMs);
  const client = openKafkaClient(options, { requestTimeoutMs, retry: { retries: 5 } });
  const groupId = `${options.clientId}-reader-${randomBytes(6).toString('hex')}`;
  // A batch is awaited for less long than by default, which is for services that share work.
  const consumer = client.kafka.consumer({ groupId, maxWaitTimeInMs: 100 });
  consumer.on('consumer.crash', ({ payload }) => done.reject(payload.error));
  consumer.on('consumer.end_batch_process', ({ payload }) => pass(payload));
  try {
    await consumer.connect();
    await consumer.subscribe({ topic });
    await consumer.run({ autoCommit: false, eachBatch: take });
    for (const { partition, from } of [...missing.values()]) {
      consumer.seek({ topic, partition, offset: from.toString() });
    }
    await done.promise;
  } finally {
    clearTimeout(late);
    await consumer.disconnect();
    client.destroy();
    await inquiry.ask((admin) => admin.deleteGroups([groupId]));
  }
  return records;
}
