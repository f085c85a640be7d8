import { deadLetterBatchBytes } from './dead-letters.ts';
import type { BrokerConnection } from './kafka-client.ts';
import { readTopicConfig } from './topic-config.ts';

/**
 * Refuses a topic for dead letters that takes smaller batches than they are sent in. The brokers
 * would refuse such a batch however often it is sent again: a burst of poison, or one large record,
 * would hold up its partition and every payment behind it. Kafka's own default of 1 MiB is too
 * little, because a dead letter is its record and more.
 *
 * Passes with a warning when the brokers do not tell, such as while they are away.
 *
 * @throws with one sentence that says what to do: the service must not run so.
 */
export async function requireLetterRoom(
  options: BrokerConnection & { topic: string },
): Promise<void> {
  const { topic, logger } = options;
  const config = await readTopicConfig(options);
  if (config.outcome === 'unknown') {
    logger.warn({ topic, why: config.why }, 'Kafka did not report its largest batch: not checked');
    return;
  }
  const bytesMax = Number(config.valueOf('max.message.bytes'));
  if (bytesMax >= deadLetterBatchBytes) return;
  throw new Error(
    `topic ${topic} has max.message.bytes ${bytesMax}, and dead letters come in batches of up to ${deadLetterBatchBytes} bytes: ` +
      `set it with kafka-configs --alter --entity-type topics --entity-name ${topic} --add-config max.message.bytes=${deadLetterBatchBytes}`,
  );
}
