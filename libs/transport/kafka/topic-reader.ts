import { driverOf, openInquiry, type Inquiry } from './brokers.ts';
import type { BrokerConnection, ReceivedRecord, Stretch, Wanted } from './driver.ts';
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

/** Enough for minutes of heavy load after a payment, and read within seconds. */
const keyedRecordsMax = 200_000n;
const newestMax = 10_000n;
const scanMaxMs = 60_000;
/** Clocks of a producer and a broker may differ by this much. */
const clockSlackMs = 60_000;

/** Opens a reader; it connects at its first look. */
export function openTopicReader(options: BrokerConnection & { topic: string }): TopicReader {
  const inquiry = openInquiry(options);
  const scanning = (wanted: Scanned) => scan(options, wanted);
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
  const there = await inquiry.ask((admin) => admin.bounds(topic));
  return [...there].map(([partition, { start, end }]) => ({ partition, from: start, to: end }));
}

/** Where records of a key can be; `last` bounds how far one look goes. */
async function stretchOfKey(
  inquiry: Inquiry,
  { topic, key, since }: { topic: string; key: string; since: Date },
): Promise<Stretch & { last: bigint }> {
  const all = await wholeTopic(inquiry, topic);
  const earliest = new Date(since.getTime() - clockSlackMs);
  const starts = await inquiry.ask((admin) => admin.since(topic, earliest));
  const partition = partitionOfKey(key, all.length);
  const { to } = all.find((each) => each.partition === partition)!;
  const from = starts.get(partition) ?? to;
  return { partition, from, to, last: from + keyedRecordsMax };
}

type Scanned = { stretches: readonly Stretch[]; isWanted: (record: ReceivedRecord) => boolean };

async function scan(
  options: BrokerConnection & { topic: string },
  { stretches, isWanted }: Scanned,
): Promise<ReceivedRecord[]> {
  const wanted = stretches.filter(({ from, to }) => from < to);
  if (wanted.length === 0) return [];
  const records: ReceivedRecord[] = [];
  const take = (read: readonly ReceivedRecord[]) => void records.push(...read.filter(isWanted));
  const reading = { stretches: wanted, take, withinMs: scanMaxMs };
  await readStretches(options, reading);
  return records;
}

/**
 * Reads stretches of a topic, each in its order; commits nothing and leaves no group behind.
 *
 * @throws when that takes longer than it may, or one is in the log no more.
 */
export async function readStretches(
  options: BrokerConnection & { topic: string },
  wanted: Wanted,
): Promise<void> {
  const driver = await driverOf(options);
  await driver.readStretches(options, wanted);
}
