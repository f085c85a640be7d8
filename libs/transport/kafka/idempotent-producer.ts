import { randomInt } from 'node:crypto';
import { inBatchSpan, withDeadline } from '@triplock/runtime';
import type { ICustomPartitioner, Message, Producer, RecordMetadata } from 'kafkajs';
import { openKafkaClient, type BrokerConnection } from './kafka-client.ts';
import { sendBatchSpan } from './kafka-spans.ts';
import { partitionOfKey } from './partition-of-key.ts';

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
