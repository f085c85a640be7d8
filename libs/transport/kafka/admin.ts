import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs, withDeadline } from '@triplock/runtime';
import kafkajs, { type Admin, type ConfigResourceTypes } from 'kafkajs';
import { openKafkaClient, type BrokerConnection, type KafkaClient } from './client.ts';

/** Questions to the brokers on a connection that is made when the first one is asked. */
export type Inquiry = {
  /**
   * Asks within the connection's limit, and again while a broker answers that it does not know yet.
   * A question that fails closes the connection; the next makes another.
   */
  ask<Answer>(question: (admin: Admin) => Promise<Answer>): Promise<Answer>;
  /** Resolves when a broker answers and knows the topic. */
  ping(topic: string): Promise<void>;
  close(): Promise<void>;
};

/** Of a service: whoever waits for its answer has not long either. */
const answerMs = 2_000;

/** Opens an inquiry; nothing is sent until something is asked. */
export function openInquiry(connection: BrokerConnection): Inquiry {
  const limitMs = connection.answerWithinMs ?? answerMs;
  let open: { client: KafkaClient; admin: Promise<Admin> } | undefined;

  const drop = (dropped: typeof open) => {
    if (open === dropped) open = undefined;
    dropped?.client.destroy();
  };
  const ask: Inquiry['ask'] = async (question) => {
    const asked = (open ??= connectAdmin(connection, limitMs));
    try {
      const answer = insist(asked.admin, question, performance.now() + limitMs);
      return await withDeadline(answer, { ms: limitMs, what: 'Kafka' });
    } catch (error) {
      drop(asked);
      throw error;
    }
  };
  return {
    ask,
    ping: (topic) =>
      ask(async (admin) => void (await admin.fetchTopicMetadata({ topics: [topic] }))),
    close: async () => drop(open),
  };
}

const pauses = { firstMs: 50, maxMs: 300 };

/**
 * A group's coordinator that moves, or that a new broker has not loaded yet, is no failure: kafkajs
 * passes on that answer of some questions at once. It is thrown when no time is left to ask again.
 */
async function insist<Answer>(
  connected: Promise<Admin>,
  question: (admin: Admin) => Promise<Answer>,
  until: number,
): Promise<Answer> {
  const admin = await connected;
  for (let attempt = 0; ; attempt += 1) {
    const pauseMs = backoffMs(attempt, pauses);
    try {
      return await question(admin);
    } catch (error) {
      const canTellLater = error instanceof kafkajs.KafkaJSProtocolError && error.retriable;
      if (!canTellLater || performance.now() + pauseMs >= until) throw error;
    }
    await delay(pauseMs);
  }
}

function connectAdmin(connection: BrokerConnection, limitMs: number) {
  const client = openKafkaClient(connection, {
    requestTimeoutMs: limitMs,
    retry: { retries: 3, initialRetryTime: 50, maxRetryTime: 300 },
  });
  const admin = client.kafka.admin();
  const connected = admin.connect().then(() => admin);
  // The asker gets this rejection too; without a listener of its own it would end the process when
  // the asker's time was over first.
  connected.catch((error: unknown) => {
    connection.logger.debug({ err: error }, 'could not connect to ask Kafka');
  });
  return { client, admin: connected };
}

/** A topic's settings by their Kafka names, or why they are unknown. */
export type TopicConfig =
  | {
      outcome: 'known';
      /** @throws when the brokers do not report it. */
      valueOf(name: string): string;
    }
  | Unknown;

/** Why a question has no answer, and whether the brokers refuse it to this user. */
export type Unknown = { outcome: 'unknown'; why: string; refused?: 'login' | 'right' };

// kafkajs exports its enum in a form that a module cannot import by name; this is its TOPIC.
const topicResource = 2 as ConfigResourceTypes.TOPIC;

/** Asks the brokers for a topic's settings, within the connection's limit. It never rejects. */
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
    return unknownBecause(error);
  } finally {
    await inquiry.close();
  }
}

/** What is known of a question that failed: asked again, a broker that refuses it says the same. */
export function unknownBecause(error: unknown): Unknown {
  const why = explain(error);
  const { name, type } = error as { name?: string; type?: string };
  if (name === 'KafkaJSSASLAuthenticationError')
    return { outcome: 'unknown', why, refused: 'login' };
  if (type?.endsWith('_AUTHORIZATION_FAILED')) return { outcome: 'unknown', why, refused: 'right' };
  return { outcome: 'unknown', why };
}

/** The message of whatever was thrown. */
export function explain(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
