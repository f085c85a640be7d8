import type { BrokerConnection } from './kafka-client.ts';
import { readTopicConfig } from './topic-config.ts';

/** What kafkajs reads by itself (kafka.js.org/docs/producing#compression). */
const readable = ['uncompressed', 'gzip'];

/**
 * Refuses a topic that lets in batches which this consumer cannot read. With any other
 * `compression.type`, Kafka's default `producer` included, one batch compressed with
 * snappy, lz4 or zstd would hold up its partition for ever, and every payment behind it.
 *
 * Passes with a warning when the brokers do not answer, such as while they are away: the consumer
 * then stops at such a batch and says so again and again, and nothing behind it is lost.
 *
 * What a topic let in before is not looked at: a batch that is there stays as it is.
 *
 * @throws with one sentence that says what to do: the service must not run so.
 */
export async function requireReadable(
  options: BrokerConnection & { topic: string },
): Promise<void> {
  const { topic, logger } = options;
  const config = await readTopicConfig(options);
  if (config.outcome === 'unknown') {
    logger.warn({ topic, why: config.why }, 'Kafka did not report its compression: not checked');
    return;
  }
  const compression = config.valueOf('compression.type');
  if (readable.includes(compression)) return;
  throw new Error(
    `topic ${topic} has compression.type ${compression}, which lets in batches that cannot be read here (snappy, lz4, zstd): ` +
      `set it to uncompressed with kafka-configs --alter --entity-type topics --entity-name ${topic} --add-config compression.type=uncompressed`,
  );
}
