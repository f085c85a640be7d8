import { randomInt } from 'node:crypto';
import { inBatchSpan, withDeadline, type BatchSpanSpec } from '@triplock/runtime';
import type { ICustomPartitioner, Message, Producer, RecordMetadata } from 'kafkajs';
import { openKafkaClient, type BrokerConnection } from './client.ts';

/**
 * One producer id, from its first batch to its first failure. After a rejected batch kafkajs takes
 * its sequence numbers back although the broker may have stored the batch; a later batch of the
 * same length would then be acknowledged as a duplicate and never stored. So a producer that failed
 * once sends nothing more.
 */
export type IdempotentProducer = {
  /**
   * Resolves when every in-sync replica has every message. Call it again only after it resolved:
   * with two batches under way a lost reply loses messages too.
   *
   * @throws when the outcome is unknown; this producer is then of no further use.
   */
  send(messages: Message[]): Promise<void>;
  close(): Promise<void>;
};

/** `sendLimitMs` bounds one batch with all the retries that kafkajs makes. */
export type ProducerOptions = BrokerConnection & { topic: string; sendLimitMs: number };

const connectLimitMs = 3_000;
const closeLimitMs = 2_000;

/** Connects a producer with an id of its own, or rejects within {@link connectLimitMs}. */
export async function connectProducer(options: ProducerOptions): Promise<IdempotentProducer> {
  const { topic, sendLimitMs } = options;
  const client = openKafkaClient(options, {
    requestTimeoutMs: sendLimitMs,
    // A moved leader or a closed connection is tried again within the batch's limit. These retries
    // are safe: they repeat the same sequence numbers.
    retry: { retries: 5, initialRetryTime: 50, maxRetryTime: 400 },
  });
  const producer = client.kafka.producer({
    idempotent: true,
    allowAutoTopicCreation: false,
    createPartitioner: pinningPartitioner,
  });
  let failed = false;

  const discard = () => {
    failed = true;
    client.destroy();
    disconnectInBackground(producer, options);
  };

  try {
    await withDeadline(producer.connect(), { ms: connectLimitMs, what: 'Kafka' });
  } catch (error) {
    discard();
    throw error;
  }
  return {
    send: async (messages) => {
      if (failed) throw new Error('this producer has failed and sends nothing more');
      try {
        const batch = { acks: -1, timeout: sendLimitMs, topicMessages: [{ topic, messages }] };
        const limit = { ms: sendLimitMs, what: 'Kafka' };
        const sent = await inBatchSpan(sendBatchSpan(topic, messages), () =>
          withDeadline(producer.sendBatch(batch), limit),
        );
        requireEveryPartition(messages, sent);
      } catch (error) {
        discard();
        throw error;
      }
    },
    close: async () => {
      if (failed) return;
      const limit = { ms: closeLimitMs, what: 'Kafka' };
      await withDeadline(producer.disconnect(), limit).finally(() => client.destroy());
    },
  };
}

/**
 * Writes the partition into the message at its first try, so that a topic that grows between two
 * tries does not send the same message under another partition's sequence numbers.
 */
const pinningPartitioner: ICustomPartitioner = () => {
  return ({ message, partitionMetadata }) => {
    const { length } = partitionMetadata;
    message.partition ??=
      message.key == null ? randomInt(length) : partitionOfKey(message.key, length);
    return message.partition;
  };
};

/**
 * kafkajs remembers per broker, over its retries, who has answered. A partition whose leader moves
 * between two tries to a broker that has answered already is then never sent, and `sendBatch`
 * resolves all the same. So it counts only when every partition is in the answer.
 */
export function requireEveryPartition(
  messages: readonly Message[],
  answers: readonly Pick<RecordMetadata, 'partition'>[],
): void {
  const answered = new Set(answers.map((answer) => answer.partition));
  const missing = messages.find((message) => !answered.has(message.partition!));
  if (missing) throw new Error(`no broker answered for partition ${missing.partition}`);
}

function disconnectInBackground(producer: Producer, { logger }: ProducerOptions): void {
  producer.disconnect().catch((error: unknown) => {
    logger.debug({ err: error }, 'a discarded producer did not disconnect');
  });
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
function sendBatchSpan(topic: string, messages: readonly Message[]): BatchSpanSpec {
  const attributes = {
    'messaging.system': 'kafka',
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'send batch',
    'messaging.destination.name': topic,
    'messaging.batch.message_count': messages.length,
  };
  const name = `send batch ${topic}`;
  return { name, kind: 'client', attributes, of: () => messages.flatMap(traceparentOf) };
}

function traceparentOf({ headers }: Message): string[] {
  const header = headers?.['traceparent'];
  return typeof header === 'string' || Buffer.isBuffer(header) ? [header.toString()] : [];
}
