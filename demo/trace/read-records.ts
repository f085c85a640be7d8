import { randomBytes } from 'node:crypto';
import { decodeAccepted, type UndecodedRecord } from '@triplock/contracts';
import type { TxnId } from '@triplock/payments';
import {
  Partitioners,
  type Admin,
  type Consumer,
  type EachBatchPayload,
  type Kafka,
  type KafkaMessage,
} from 'kafkajs';

/**
 * A record of the accepted topic under the payment's id: of the payment, of a refund, or of
 * neither.
 */
export type RecordSeen = {
  offset: string;
  at: Date;
  bytes: number;
  txnId: TxnId | undefined;
  /** The OpenTelemetry trace that it came with. */
  traceId: string | undefined;
};

/** What a look into the topic gives. */
export type RecordsSeen = {
  partition: number;
  records: RecordSeen[];
  /** False when there was more to read than we do in one look. */
  complete: boolean;
};

/** Which records to look for: their key, and the time before which there can be none. */
export type RecordQuery = { topic: string; key: string; since: Date };

/** Enough for minutes of heavy load after the payment, and read within seconds. */
const recordsMax = 200_000;

const scanMaxMs = 60_000;

/** Clocks of gateway and broker may differ by this much. */
const clockSlackMs = 60_000;

/**
 * All records with one key. More than one of a transaction is a duplicate that the gateway
 * produced.
 */
export async function readRecords(kafka: Kafka, query: RecordQuery): Promise<RecordsSeen> {
  const { messages, ...rest } = await readMessages(kafka, query);
  const records = messages.map(({ key, offset, timestamp, value, headers = {} }) => ({
    offset,
    at: new Date(Number(timestamp)),
    bytes: value?.length ?? 0,
    ...toldBy({ key, value, headers }),
  }));
  return { ...rest, records };
}

function toldBy(record: UndecodedRecord): Pick<RecordSeen, 'txnId' | 'traceId'> {
  const decoded = decodeAccepted(record);
  switch (decoded.outcome) {
    case 'payment':
      return { txnId: decoded.payment.txnId, traceId: traceIdOf(decoded.traceparent) };
    case 'refund':
      return { txnId: decoded.refund.txnId, traceId: traceIdOf(decoded.traceparent) };
    case 'refused':
      return { txnId: undefined, traceId: undefined };
    default:
      return decoded satisfies never;
  }
}

/** The second part of a `traceparent`. */
function traceIdOf(traceparent: string): string {
  return traceparent.split('-')[1]!;
}

type MessagesSeen = Omit<RecordsSeen, 'records'> & { messages: KafkaMessage[] };

/**
 * The same with what is in them, read from the key's partition up to its end of now. Leaves nothing
 * behind on the broker.
 */
export async function readMessages(kafka: Kafka, query: RecordQuery): Promise<MessagesSeen> {
  const admin = kafka.admin();
  await admin.connect();
  try {
    const range = await findRange(admin, query);
    if (range.from >= range.to) return { partition: range.partition, messages: [], complete: true };
    const groupId = `triplock-trace-${randomBytes(6).toString('hex')}`;
    // The defaults are for services that share work; this group has one member that stays a second.
    const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 });
    try {
      return await scan(consumer, { query, range });
    } finally {
      await consumer.disconnect();
      await admin.deleteGroups([groupId]);
    }
  } finally {
    await admin.disconnect();
  }
}

type Range = { partition: number; from: bigint; to: bigint };

async function findRange(admin: Admin, { topic, key, since }: RecordQuery): Promise<Range> {
  const from = since.getTime() - clockSlackMs;
  const [ends, starts] = await Promise.all([
    admin.fetchTopicOffsets(topic),
    admin.fetchTopicOffsetsByTimestamp(topic, from),
  ]);
  const partition = partitionOf(key, { topic, count: ends.length });
  const end = ends.find((each) => each.partition === partition)!;
  // kafkajs answers -1 when no record is that young.
  const start = BigInt(starts.find((each) => each.partition === partition)!.offset);
  return { partition, from: start < 0n ? BigInt(end.high) : start, to: BigInt(end.high) };
}

function partitionOf(key: string, { topic, count }: { topic: string; count: number }): number {
  const partitionMetadata = Array.from({ length: count }, (_, partitionId) => ({
    partitionErrorCode: 0,
    partitionId,
    leader: 0,
    replicas: [],
    isr: [],
  }));
  const choose = Partitioners.DefaultPartitioner();
  return choose({ topic, partitionMetadata, message: { key, value: null } });
}

async function scan(
  consumer: Consumer,
  { query, range }: { query: RecordQuery; range: Range },
): Promise<MessagesSeen> {
  const { topic, key } = query;
  const { partition } = range;
  const last = range.to - range.from > recordsMax ? range.from + BigInt(recordsMax) : range.to;
  const messages: KafkaMessage[] = [];
  let next = range.from;
  const done = Promise.withResolvers<void>();
  const eachBatch = async ({ batch }: EachBatchPayload) => {
    // A batch fetched before the seek took hold begins at the topic's end.
    const first = BigInt(batch.firstOffset() ?? -1);
    if (batch.partition !== partition || first < next || first >= range.to) return;
    messages.push(...batch.messages.filter(({ key: found }) => found?.toString() === key));
    next = BigInt(batch.lastOffset()) + 1n;
    if (next >= last) done.resolve();
  };
  consumer.on('consumer.crash', ({ payload }) => done.reject(payload.error));
  await consumer.connect();
  await consumer.subscribe({ topic });
  await consumer.run({ autoCommit: false, eachBatch });
  consumer.seek({ topic, partition, offset: range.from.toString() });
  const late = setTimeout(() => done.reject(new Error(`${topic} was not read in time`)), scanMaxMs);
  await done.promise.finally(() => clearTimeout(late));
  return { partition, messages, complete: last === range.to };
}
