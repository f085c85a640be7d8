import type { ConfigResourceTypes } from 'kafkajs';
import { openInquiry } from './ask-brokers.ts';
import type { BrokerConnection } from './kafka-client.ts';

/**
 * For how long, and up to what size, a topic keeps records, with `Infinity` where nothing limits
 * it; or why that cannot be told.
 */
export type TopicRetention =
  | {
      outcome: 'known';
      retentionMs: number;
      /** Bytes of one partition. */
      retentionBytes: number;
      /** Old records leave by age and size only, and not because a newer one has the same key. */
      keepsEveryRecord: boolean;
    }
  | { outcome: 'unknown'; why: string };

// kafkajs exports its enum in a form that a module cannot import by name; this is its TOPIC.
const topicResource = 2 as ConfigResourceTypes.TOPIC;

/**
 * Reads how a topic is kept from the brokers (Kafka's topic configs `retention.ms`,
 * `retention.bytes` and `cleanup.policy`), within some 2 s. It never rejects.
 */
export async function readTopicRetention(
  options: BrokerConnection & { topic: string },
): Promise<TopicRetention> {
  const inquiry = openInquiry(options);
  try {
    const { resources } = await inquiry.ask((admin) =>
      admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: topicResource, name: options.topic }],
      }),
    );
    const entries = resources.flatMap(({ configEntries }) => configEntries);
    const valueOf = (name: string) => {
      const entry = entries.find(({ configName }) => configName === name);
      if (entry === undefined) throw new Error(`the brokers do not tell ${name}`);
      return entry.configValue;
    };
    return {
      outcome: 'known',
      retentionMs: limit(valueOf('retention.ms')),
      retentionBytes: limit(valueOf('retention.bytes')),
      keepsEveryRecord: valueOf('cleanup.policy') === 'delete',
    };
  } catch (error) {
    return { outcome: 'unknown', why: error instanceof Error ? error.message : String(error) };
  } finally {
    await inquiry.close();
  }
}

/** Kafka writes -1 for "no limit". */
function limit(value: string): number {
  return Number(value) < 0 ? Infinity : Number(value);
}
