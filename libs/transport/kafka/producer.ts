import { randomInt } from 'node:crypto';
import { inBatchSpan, withDeadline, type BatchSpanSpec } from '@triplock/runtime';
import type { BrokerConnection, OutgoingRecord } from './driver.ts';
import { driverOf } from './brokers.ts';

/**
 * One producer id, from its first batch to its first failure. After a rejected batch kafkajs takes
 * its sequence numbers back although the broker may have stored the batch; a later batch of the
 * same length would then be acknowledged as a duplicate and never stored. So a producer that failed
 * once sends nothing more, whatever the library is.
 */
export type IdempotentProducer = {
  /**
   * Resolves when every in-sync replica has every record. Call it again only after it resolved:
   * with two batches under way a lost reply loses messages too.
   *
   * @throws when the outcome is unknown; this producer is then of no further use.
   */
  send(records: OutgoingRecord[]): Promise<void>;
  close(): Promise<void>;
};

/** `sendLimitMs` bounds one batch with all the tries that the library makes. */
export type ProducerOptions = BrokerConnection & { topic: string; sendLimitMs: number };

const connectLimitMs = 3_000;
const closeLimitMs = 2_000;

/** Connects a producer with an id of its own, or rejects within {@link connectLimitMs}. */
export async function connectProducer(options: ProducerOptions): Promise<IdempotentProducer> {
  const { topic, sendLimitMs } = options;
  const driver = await driverOf(options);
  const producer = driver.openProducer({ ...options, pin: pinPartition });
  let failed = false;

  const discard = () => {
    failed = true;
    producer.destroy();
  };

  try {
    await withDeadline(producer.connect(), { ms: connectLimitMs, what: 'Kafka' });
  } catch (error) {
    discard();
    throw error;
  }
  return {
    send: async (records) => {
      if (failed) throw new Error('this producer has failed and sends nothing more');
      try {
        const limit = { ms: sendLimitMs, what: 'Kafka' };
        const answered = await inBatchSpan(sendBatchSpan(topic, records), () =>
          withDeadline(producer.send(records), limit),
        );
        requireEveryPartition(records, answered);
      } catch (error) {
        discard();
        throw error;
      }
    },
    close: async () => {
      if (failed) return;
      const limit = { ms: closeLimitMs, what: 'Kafka' };
      await withDeadline(producer.disconnect(), limit).finally(() => producer.destroy());
    },
  };
}

/**
 * kafkajs remembers per broker, over its retries, who has answered. A partition whose leader moves
 * between two tries to a broker that has answered already is then never sent, and `sendBatch`
 * resolves all the same. So it counts only when every partition is in the answer.
 */
export function requireEveryPartition(
  records: readonly OutgoingRecord[],
  partitions: Iterable<number>,
): void {
  const answered = new Set(partitions);
  const missing = records.find((record) => !answered.has(record.partition!));
  if (missing) throw new Error(`no broker answered for partition ${missing.partition}`);
}

/** The partition that a record says, or that of its key, or any; it is written into the record. */
function pinPartition(record: OutgoingRecord, partitions: number): number {
  record.partition ??=
    record.key == null ? randomInt(partitions) : partitionOfKey(record.key, partitions);
  return record.partition;
}

const seed = 0x9747b28c;
const multiplier = 0x5bd1e995;

/**
 * The partition of a record key: murmur2 of its bytes, as Kafka's own producers spread keys
 * (org.apache.kafka.common.utils.Utils.murmur2), so that any client finds a payment in the same
 * one. kafkajs computes the same with big integers, at several times the cost.
 */
export function partitionOfKey(key: string | Buffer, partitions: number): number {
  const bytes = typeof key === 'string' ? Buffer.from(key) : key;
  return (murmur2(bytes) & 0x7fffffff) % partitions;
}

function murmur2(bytes: Buffer): number {
  const { length } = bytes;
  const wholeWords = length - (length % 4);
  let hash = seed ^ length;
  for (let at = 0; at < wholeWords; at += 4) {
    const word = mix(bytes.readInt32LE(at));
    hash = Math.imul(hash, multiplier) ^ word;
  }
  if (length > wholeWords) {
    for (let at = wholeWords; at < length; at += 1) hash ^= bytes[at]! << (8 * (at - wholeWords));
    hash = Math.imul(hash, multiplier);
  }
  hash = Math.imul(hash ^ (hash >>> 13), multiplier);
  return hash ^ (hash >>> 15);
}

function mix(word: number): number {
  const product = Math.imul(word, multiplier);
  return Math.imul(product ^ (product >>> 24), multiplier);
}

/*
 * Spans of our own, and not by the instrumentation of kafkajs. That one makes the span of a message
 * where `sendBatch` is called, which is in the loop of the group commit and in no request, and puts
 * it over the header that the record came with; and of a batch that is consumed it makes spans that
 * end together and that nothing is done in. Names and attributes are those of the semantic
 * conventions (opentelemetry.io/docs/specs/semconv/messaging/kafka).
 */

/** One request with all the records that go together. */
function sendBatchSpan(topic: string, records: readonly OutgoingRecord[]): BatchSpanSpec {
  const attributes = {
    'messaging.system': 'kafka',
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'send batch',
    'messaging.destination.name': topic,
    'messaging.batch.message_count': records.length,
  };
  const name = `send batch ${topic}`;
  return { name, kind: 'client', attributes, of: () => records.flatMap(traceparentOf) };
}

function traceparentOf({ headers }: OutgoingRecord): string[] {
  const header = headers?.['traceparent'];
  return typeof header === 'string' || Buffer.isBuffer(header) ? [header.toString()] : [];
}
