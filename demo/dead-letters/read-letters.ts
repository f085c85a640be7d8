import { randomBytes } from 'node:crypto';
import type { EachBatchPayload, IHeaders, Kafka, KafkaMessage } from 'kafkajs';

/** A record of the dead-letter topic. */
export type KafkaLetter = {
  partition: number;
  offset: string;
  at: Date;
  key: Buffer | null;
  value: Buffer | null;
  headers: IHeaders;
};

/** All of the topic, or the one record at a place. */
export type LetterQuery = { topic: string; only?: { partition: number; offset: bigint } };

/** The newest of each partition; there are few dead letters, or something is wrong at large. */
const lettersMax = 10_000n;
const readMaxMs = 30_000;

/** Reads dead letters up to the topic's end of now, oldest first. Leaves nothing on the broker. */
export async function readLetters(kafka: Kafka, query: LetterQuery): Promise<KafkaLetter[]> {
  const admin = kafka.admin();
  await admin.connect();
  try {
    const ends = await admin.fetchTopicOffsets(query.topic);
    const ranges = ends.map((end) => rangeOf(end, query)).filter(({ from, to }) => from < to);
    if (ranges.length === 0) return [];
    const groupId = `triplock-dead-letters-${randomBytes(6).toString('hex')}`;
    try {
      return await readRanges(kafka, { topic: query.topic, groupId, ranges });
    } finally {
      await admin.deleteGroups([groupId]);
    }
  } finally {
    await admin.disconnect();
  }
}

type Range = { partition: number; from: bigint; to: bigint };

function rangeOf(
  { partition, low, high }: { partition: number; low: string; high: string },
  { only }: LetterQuery,
): Range {
  const [first, to] = [BigInt(low), BigInt(high)];
  if (only === undefined) {
    const from = to - first > lettersMax ? to - lettersMax : first;
    return { partition, from, to };
  }
  const isHere = only.partition === partition && only.offset >= first && only.offset < to;
  return { partition, from: isHere ? only.offset : to, to: isHere ? only.offset + 1n : to };
}

async function readRanges(
  kafka: Kafka,
  wanted: { topic: string; groupId: string; ranges: readonly Range[] },
): Promise<KafkaLetter[]> {
  const { topic, groupId, ranges } = wanted;
  const open = new Map(ranges.map((range) => [range.partition, { ...range }]));
  const letters: KafkaLetter[] = [];
  const done = Promise.withResolvers<void>();
  const eachBatch = async ({ batch }: EachBatchPayload) => {
    const range = open.get(batch.partition);
    for (const message of range === undefined ? [] : batch.messages) {
      const offset = BigInt(message.offset);
      // A batch fetched before the seek took hold begins elsewhere.
      if (offset < range!.from || offset >= range!.to) continue;
      letters.push(letterOf(batch.partition, message));
      range!.from = offset + 1n;
    }
    if (range !== undefined && range.from >= range.to) open.delete(batch.partition);
    if (open.size === 0) done.resolve();
  };
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 });
  consumer.on('consumer.crash', ({ payload }) => done.reject(payload.error));
  const late = setTimeout(() => done.reject(new Error(`${topic} was not read in time`)), readMaxMs);
  try {
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({ autoCommit: false, eachBatch });
    for (const { partition, from } of ranges) {
      consumer.seek({ topic, partition, offset: from.toString() });
    }
    await done.promise;
  } finally {
    clearTimeout(late);
    await consumer.disconnect();
  }
  return letters.sort((a, b) => a.at.getTime() - b.at.getTime());
}

function letterOf(partition: number, message: KafkaMessage): KafkaLetter {
  const { offset, key, value, headers, timestamp } = message;
  return { partition, offset, at: new Date(Number(timestamp)), key, value, headers: headers ?? {} };
}

/** What a header of the letter says, for people. */
export function headerText({ headers }: KafkaLetter, name: string): string {
  return [headers[name] ?? []].flat().map(String).join(', ');
}

/** The headers that the record had before it became a dead letter. */
export function originalHeaders({ headers }: KafkaLetter): IHeaders {
  const originals = Object.entries(headers)
    .filter(([name]) => !name.startsWith('dead-letter.'))
    .map(([name, value]) => [name.replace(/^original\.(?=dead-letter\.)/, ''), value]);
  return Object.fromEntries(originals) as IHeaders;
}
