import { setTimeout as delay } from 'node:timers/promises';
import {
  addresses,
  backoffMs,
  isSet,
  oneOf,
  text,
  withDeadline,
  withDefault,
  type SettingsOf,
} from '@triplock/runtime';
import type { BrokerAdmin, BrokerConnection, KafkaDriver, KafkaDriverName } from './driver.ts';

/** A library is loaded when somebody first connects by it: who uses another does not pay for it. */
const drivers: Readonly<Record<KafkaDriverName, () => Promise<KafkaDriver>>> = {
  kafkajs: async () => (await import('./kafkajs/driver.ts')).kafkajs,
  platformatic: async () => (await import('./platformatic/driver.ts')).platformatic,
};

/** What KAFKA_CLIENT can name. */
export const kafkaDriverNames = Object.keys(drivers) as [KafkaDriverName, ...KafkaDriverName[]];

/** The driver of a connection. */
export function driverOf({
  driver = 'kafkajs',
}: Pick<BrokerConnection, 'driver'>): Promise<KafkaDriver> {
  return drivers[driver]();
}

/** The settings of whoever speaks to Kafka. */
export const kafkaSettings = {
  KAFKA_BROKERS: addresses,
  /** The client library; members of one group may use different ones. */
  KAFKA_CLIENT: withDefault(oneOf(kafkaDriverNames), 'kafkajs' as const),
  /** TLS by the authorities that Node knows, and those of the file in NODE_EXTRA_CA_CERTS. */
  KAFKA_TLS: withDefault(oneOf(['on', 'off']), 'off' as const),
  /** This service's user, whose rights in Kafka are its own; both or none. */
  KAFKA_USERNAME: withDefault(text, undefined),
  KAFKA_PASSWORD: withDefault(text, undefined),
  /**
   * How it logs in. By SCRAM (RFC 5802) the password is never sent, not even to the broker, so that
   * nobody hears it where there is no TLS. `plain` is for brokers that know nothing else.
   */
  KAFKA_SASL: withDefault(oneOf(['scram-sha-512', 'plain']), 'scram-sha-512' as const),
};

/** What is missing of a login. */
export function missingForKafka(environment: NodeJS.ProcessEnv): string[] {
  const pair = ['KAFKA_USERNAME', 'KAFKA_PASSWORD'] as const;
  const missing = pair.filter((name) => !isSet(environment, name));
  if (missing.length !== 1) return [];
  const given = pair.find((name) => !missing.includes(name));
  return [`${missing[0]} is missing: ${given} needs it`];
}

/** The brokers that the settings name, by the library and as the user that they name. */
export function kafkaOf(
  config: SettingsOf<typeof kafkaSettings>,
  as: Pick<BrokerConnection, 'clientId' | 'logger' | 'onThrottled'>,
): BrokerConnection {
  const { KAFKA_USERNAME: username, KAFKA_PASSWORD: password, KAFKA_SASL: mechanism } = config;
  const hasLogin = username !== undefined && password !== undefined;
  return {
    brokers: config.KAFKA_BROKERS,
    driver: config.KAFKA_CLIENT,
    tls: config.KAFKA_TLS,
    ...(hasLogin && { login: { mechanism, username, password } }),
    ...as,
  };
}

/** Questions to the brokers on a connection that is made when the first one is asked. */
export type Inquiry = {
  /**
   * Asks within the connection's limit, and again while a broker answers that it does not know yet.
   * A question that fails closes the connection; the next makes another.
   */
  ask<Answer>(question: (admin: BrokerAdmin) => Promise<Answer>): Promise<Answer>;
  /** Resolves when a broker answers and knows the topic. */
  ping(topic: string): Promise<void>;
  close(): Promise<void>;
};

/** Of a service: whoever waits for its answer has not long either. */
const answerMs = 2_000;

/** Opens an inquiry; nothing is sent until something is asked. */
export function openInquiry(connection: BrokerConnection): Inquiry {
  const limitMs = connection.answerWithinMs ?? answerMs;
  let open: ReturnType<KafkaDriver['connectAdmin']> | undefined;

  const drop = (dropped: typeof open) => {
    if (open === dropped) open = undefined;
    dropped?.destroy();
  };
  const ask: Inquiry['ask'] = async (question) => {
    const driver = await driverOf(connection);
    const asked = (open ??= connectToAsk(driver, connection, limitMs));
    try {
      const answer = insist(driver, () => asked.admin.then(question), performance.now() + limitMs);
      return await withDeadline(answer, { ms: limitMs, what: 'Kafka' });
    } catch (error) {
      drop(asked);
      throw error;
    }
  };
  return {
    ask,
    ping: (topic) => ask(async (admin) => void (await admin.replicas(topic))),
    close: async () => drop(open),
  };
}

const pauses = { firstMs: 50, maxMs: 300 };

/**
 * A group's coordinator that moves, or that a new broker has not loaded yet, is no failure: kafkajs
 * passes on that answer of some questions at once. It is thrown when no time is left to ask again.
 */
async function insist<Answer>(
  driver: KafkaDriver,
  question: () => Promise<Answer>,
  until: number,
): Promise<Answer> {
  for (let attempt = 0; ; attempt += 1) {
    const pauseMs = backoffMs(attempt, pauses);
    try {
      return await question();
    } catch (error) {
      const canTellLater = driver.judge(error) === 'later';
      if (!canTellLater || performance.now() + pauseMs >= until) throw error;
    }
    await delay(pauseMs);
  }
}

function connectToAsk(driver: KafkaDriver, connection: BrokerConnection, limitMs: number) {
  const connected = driver.connectAdmin(connection, limitMs);
  // The asker gets this rejection too; without a listener of its own it would end the process when
  // the asker's time was over first.
  connected.admin.catch((error: unknown) => {
    connection.logger.debug({ err: error }, 'could not connect to ask Kafka');
  });
  return connected;
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

/**
 * Asks the brokers for a topic's settings, within the connection's limit. It rejects only when the
 * library cannot be loaded, which is no outage that passes.
 */
export async function readTopicConfig(
  options: BrokerConnection & { topic: string },
): Promise<TopicConfig> {
  await driverOf(options);
  const inquiry = openInquiry(options);
  try {
    const values = await inquiry.ask((admin) => admin.config(options.topic));
    const valueOf = (name: string) => {
      const value = values.get(name);
      if (value === undefined) throw new Error(`the brokers do not report ${name}`);
      return value;
    };
    return { outcome: 'known', valueOf };
  } catch (error) {
    return await unknownBecause(options, error);
  } finally {
    await inquiry.close();
  }
}

/** What is known of a question that failed: asked again, a broker that refuses it says the same. */
export async function unknownBecause(
  connection: BrokerConnection,
  error: unknown,
): Promise<Unknown> {
  const why = explain(error);
  const refusal = (await driverOf(connection)).judge(error);
  const isRefused = refusal === 'login' || refusal === 'right';
  return { outcome: 'unknown', why, ...(isRefused && { refused: refusal }) };
}

/** What was thrown says, and what lies at its bottom: libraries wrap the errors of their tries. */
export function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const bottom = bottomOf(error);
  return error.message.includes(bottom) ? error.message : `${error.message} ${bottom}`;
}

function bottomOf(error: Error): string {
  const inner: unknown = error instanceof AggregateError ? error.errors.at(-1) : error.cause;
  return inner instanceof Error ? bottomOf(inner) : error.message;
}
