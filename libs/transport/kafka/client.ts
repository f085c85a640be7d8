import { createRequire } from 'node:module';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import {
  addresses,
  isSet,
  oneOf,
  text,
  withDefault,
  type Logger,
  type SettingsOf,
} from '@triplock/runtime';
import {
  Kafka,
  logLevel,
  type ISocketFactory,
  type logCreator,
  type RetryOptions,
  type SASLOptions,
} from 'kafkajs';

restIdleQueues();

/** Which brokers to talk to, and as whom. */
export type BrokerConnection = {
  /** `host:port` of some brokers; the others are learned from them. */
  brokers: readonly string[];
  /** Shown in the brokers' logs and quotas. */
  clientId: string;
  logger: Logger;
  /** Whom a broker with an authorizer takes this for; nobody logs in by default. */
  login?: KafkaLogin | undefined;
  /** `on`: by TLS, to who has a certificate for the name that is dialled. */
  tls?: 'on' | 'off';
  /** How long brokers may take to answer a question (`openInquiry`); 2 s by default. */
  answerWithinMs?: number;
  /** Makes a TCP connection to a broker; tests put a bad network here. */
  connect?: (broker: { host: string; port: number }) => Socket;
};

/** A user of the brokers, and how it proves to be that (SASL). */
export type KafkaLogin = {
  mechanism: 'scram-sha-512' | 'plain';
  username: string;
  password: string;
};

/** The settings of whoever speaks to Kafka. */
export const kafkaSettings = {
  KAFKA_BROKERS: addresses,
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

/** The brokers that the settings name, as the user that they name. */
export function kafkaOf(
  config: SettingsOf<typeof kafkaSettings>,
  as: Pick<BrokerConnection, 'clientId' | 'logger'>,
): BrokerConnection {
  const { KAFKA_USERNAME: username, KAFKA_PASSWORD: password, KAFKA_SASL: mechanism } = config;
  const hasLogin = username !== undefined && password !== undefined;
  return {
    brokers: config.KAFKA_BROKERS,
    tls: config.KAFKA_TLS,
    ...(hasLogin && { login: { mechanism, username, password } }),
    ...as,
  };
}

/** How long one request may take and how often kafkajs tries again by itself. */
export type ClientLimits = { requestTimeoutMs: number; retry: RetryOptions };

/** A kafkajs client with an end: after `destroy` it holds no socket and never opens another. */
export type KafkaClient = { kafka: Kafka; destroy(): void };

const connectTimeoutMs = 1_000;

/**
 * Opens a kafkajs client whose sockets are known here. kafkajs's own `disconnect` waits for
 * answers, which a hung broker never gives, so whatever is thrown away is also destroyed.
 */
export function openKafkaClient(connection: BrokerConnection, limits: ClientLimits): KafkaClient {
  const isEncrypted = connection.tls === 'on';
  const connect = connection.connect ?? (isEncrypted ? dialByTls : (broker) => connectTcp(broker));
  const sockets = new Set<Socket>();
  let destroyed = false;

  const socketFactory: ISocketFactory = ({ host, port, onConnect }) => {
    if (destroyed) throw new Error('this client was discarded');
    const socket = connect({ host, port });
    sockets.add(socket);
    return socket
      .setNoDelay(true)
      .setKeepAlive(true, 60_000)
      .once(isEncrypted ? 'secureConnect' : 'connect', onConnect)
      .once('close', () => sockets.delete(socket));
  };
  const kafka = new Kafka({
    brokers: [...connection.brokers],
    clientId: connection.clientId,
    connectionTimeout: connectTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    retry: limits.retry,
    ...(connection.login && { sasl: saslOf(connection.login) }),
    socketFactory,
    logLevel: connection.logger.isLevelEnabled('debug') ? logLevel.INFO : logLevel.NOTHING,
    logCreator: logToPino(connection.logger),
  });
  return {
    kafka,
    destroy: () => {
      destroyed = true;
      for (const socket of sockets) socket.destroy(new Error('this client was discarded'));
    },
  };
}

/** An address has no name that could be asked for (RFC 6066, 3): its certificate is for itself. */
function dialByTls({ host, port }: { host: string; port: number }): Socket {
  return connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }) });
}

/** The same either way: its type has a case of its own for each mechanism, and none for both. */
function saslOf({ mechanism, ...who }: KafkaLogin): SASLOptions {
  return mechanism === 'plain' ? { mechanism, ...who } : { mechanism, ...who };
}

/** What is used of a connection's queue of requests, which kafkajs does not export. */
type RequestQueue = { pending: readonly unknown[]; scheduleCheckPendingRequests(): void };

/**
 * Lets kafkajs rest while it has nothing to send. Its queue looks for pending requests every
 * millisecond on every connection, also when there are none: with no throttle the delay that it
 * computes is negative, which a timer takes for 1 ms (2.2.4;
 * https://github.com/tulios/kafkajs/issues/1704). A process with nothing to do is never at rest so.
 * Without a pending request there is nothing to look for, and the one that comes schedules its own
 * look.
 *
 * @throws when kafkajs has no such queue any more, at the boot and not in the middle of a night.
 */
export function restIdleQueues(): void {
  const require = createRequire(import.meta.url);
  const { prototype: queue } = require('kafkajs/src/network/requestQueue') as {
    prototype: RequestQueue;
  };
  const schedule = queue.scheduleCheckPendingRequests;
  if (typeof schedule !== 'function')
    throw new Error('kafkajs queues requests differently from the version this was written for');
  queue.scheduleCheckPendingRequests = function scheduleWhenPending() {
    if (this.pending.length > 0) schedule.call(this);
  };
}

/**
 * What kafkajs says, at level debug: it reports every try of every retry as an error. What an
 * operator must know is logged by those who use it, once.
 */
function logToPino(logger: Logger): logCreator {
  return () => (entry) => {
    const { message, timestamp: _timestamp, logger: _logger, ...details } = entry.log;
    logger.debug({ kafkajs: { namespace: entry.namespace, ...details } }, message);
  };
}

/**
 * By name, because handlers that reach Kafka by themselves (dead letters) fail with errors of ours.
 */
export function isKafkaError(error: unknown): error is Error {
  return error instanceof Error && error.name.startsWith('KafkaJS');
}
