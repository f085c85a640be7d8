import type { ConfigResourceTypes } from 'kafkajs';
import { openInquiry } from './ask-brokers.ts';
import type { BrokerConnection } from './kafka-client.ts';

/** A topic's settings by their Kafka names, or why they are unknown. */
export type TopicConfig =
  | {
      outcome: 'known';
      /** @throws when the brokers do not tell it. */
      valueOf(name: string): string;
    }
  | { outcome: 'unknown'; why: string };

// kafkajs exports its enum in a form that a module cannot import by name; this is its TOPIC.
const topicResource = 2 as ConfigResourceTypes.TOPIC;

/** Asks the brokers for a topic's settings, within some 2 s. It never rejects. */
export async function readTopicConfig(
  options: BrokerConnection & { topic: string },
): Promise<TopicConfig> {
  const inquiry = openInquiry(options);
  try {
    const { resources } = await inquiry.ask((admin) =>
      admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: topicResource, name: options.topic }],
      }),
    );
    const entries = resources.flatMap(({ configEntries }) => configEntries);
    const values = new Map(entries.map(({ configName, configValue }) => [configName, configValue]));
    const valueOf = (name: string) => {
      const value = values.get(name);
      if (value === undefined) throw new Error(`the brokers do not report ${name}`);
      return value;
    };
    return { outcome: 'known', valueOf };
  } catch (error) {
    return { outcome: 'unknown', why: explain(error) };
  } finally {
    await inquiry.close();
  }
}

/** The message of whatever was thrown. */
export function explain(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
