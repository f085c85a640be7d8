import { createRequire } from 'node:module';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import {
  Kafka,
  logLevel,
  type Admin,
  type ConfigResourceTypes,
  type ISocketFactory,
  type logCreator,
  type RetryOptions,
  type SASLOptions,
} from 'kafkajs';
import type {
  BrokerAddress,
  BrokerAdmin,
  BrokerConnection,
  BrokerRefusal,
  KafkaLogin,
} from '../driver.ts';

restIdleQueues();
tellThrottles();

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
  const connect = isEncrypted ? dialByTls : (broker: BrokerAddress) => connectTcp(broker);
  const { dial = (broker) => broker } = connection;
  const sockets = new Set<Socket>();
  let destroyed = false;

  const socketFactory: ISocketFactory = ({ host, port, onConnect }) => {
    if (destroyed) throw new Error('this client was discarded');
    const socket = connect(dial({ host, port }));
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
    logLevel: connection.logger.isLevelEnabled('debug') ? logLevel.INFO : logLevel.ERROR,
    logCreator: logToPino(connection),
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
function dialByTls({ host, port }: BrokerAddress): Socket {
  return connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }) });
}

/** The same either way: its type has a case of its own for each mechanism, and none for both. */
function saslOf({ mechanism, ...who }: KafkaLogin): SASLOptions {
  return mechanism === 'plain' ? { mechanism, ...who } : { mechanism, ...who };
}

/** What is used of a connection's queue of requests, which kafkajs does not export. */
type RequestQueue = {
  pending: readonly unknown[];
  logger: { error(message: string, details: object): void };
  scheduleCheckPendingRequests(): void;
  maybeThrottle(ms: number | null): void;
};

/**
 * A method of every queue.
 *
 * @throws when kafkajs has no such queue any more: at the boot, which asks the brokers by it.
 */
function queueMethod<Name extends 'scheduleCheckPendingRequests' | 'maybeThrottle'>(name: Name) {
  const require = createRequire(import.meta.url);
  const { prototype: queue } = require('kafkajs/src/network/requestQueue') as {
    prototype: RequestQueue;
  };
  const method: RequestQueue[Name] | undefined = queue[name];
  if (typeof method !== 'function')
    throw new Error('kafkajs queues requests differently from the version this was written for');
  return { queue, method };
}

/**
 * Lets kafkajs rest while it has nothing to send. Its queue looks for pending requests every
 * millisecond on every connection, also when there are none: with no throttle the delay that it
 * computes is negative, which a timer takes for 1 ms (2.2.4;
 * https://github.com/tulios/kafkajs/issues/1704). A process with nothing to do is never at rest so.
 * Without a pending request there is nothing to look for, and the one that comes schedules its own
 * look.
 */
export function restIdleQueues(): void {
  const { queue, method: schedule } = queueMethod('scheduleCheckPendingRequests');
  queue.scheduleCheckPendingRequests = function scheduleWhenPending() {
    if (this.pending.length > 0) schedule.call(this);
  };
}

/**
 * Has kafkajs tell for how long a broker holds a connection back. It says so to its own log alone,
 * at level debug and in words (2.2.4).
 */
function tellThrottles(): void {
  const { queue, method: throttle } = queueMethod('maybeThrottle');
  queue.maybeThrottle = function throttleAndTell(ms) {
    if (ms !== null && ms > 0) this.logger.error('held back by a quota', { throttledMs: ms });
    throttle.call(this, ms);
  };
}

/**
 * What kafkajs says, at level debug: it reports every try of every retry as an error. What an
 * operator must know is logged by those who use it, once.
 */
function logToPino({ logger, onThrottled }: BrokerConnection): logCreator {
  return () => (entry) => {
    const { message, timestamp: _timestamp, logger: _logger, ...details } = entry.log;
    if (typeof details['throttledMs'] === 'number') onThrottled?.(details['throttledMs']);
    logger.debug({ kafkajs: { namespace: entry.namespace, ...details } }, message);
  };
}

/** Connects in the background to ask. */
export function connectAdmin(connection: BrokerConnection, limitMs: number) {
  const client = openKafkaClient(connection, {
    requestTimeoutMs: limitMs,
    retry: { retries: 3, initialRetryTime: 50, maxRetryTime: 300 },
  });
  const admin = client.kafka.admin();
  return { admin: admin.connect().then(() => asking(admin)), destroy: client.destroy };
}

// kafkajs exports its enum in a form that a module cannot import by name; this is its TOPIC.
const topicResource = 2 as ConfigResourceTypes.TOPIC;

function asking(admin: Admin): BrokerAdmin {
  const metadataOf = async (topic: string) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    return topics.flatMap(({ partitions }) => partitions);
  };
  return {
    bounds: async (topic) => {
      const there = await admin.fetchTopicOffsets(topic);
      return new Map(
        there.map(({ partition, low, high }) => {
          return [partition, { start: BigInt(low), end: BigInt(high) }];
        }),
      );
    },
    since: async (topic, time) =>
      byPartition(await admin.fetchTopicOffsetsByTimestamp(topic, time.getTime())),
    committed: async ({ groupId, topic }) => {
      const answers = await admin.fetchOffsets({ groupId, topics: [topic] });
      return byPartition(answers.flatMap(({ partitions }) => partitions));
    },
    moveGroup: async ({ groupId, topic }, offsets) => {
      const partitions = [...offsets].map(([partition, offset]) => {
        return { partition, offset: String(offset) };
      });
      await admin.setOffsets({ groupId, topic, partitions });
    },
    members: async (groupId) => {
      const { groups } = await admin.describeGroups([groupId]);
      return groups.flatMap(({ members }) => members.map(({ clientId }) => clientId));
    },
    replicas: async (topic) => (await metadataOf(topic)).map(({ replicas }) => replicas.length),
    config: async (topic) => {
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: topicResource, name: topic }],
      });
      const entries = resources.flatMap(({ configEntries }) => configEntries);
      return new Map(entries.map(({ configName, configValue }) => [configName, configValue]));
    },
  };
}

function byPartition(partitions: readonly { partition: number; offset: string }[]) {
  return new Map(partitions.map(({ partition, offset }) => [partition, BigInt(offset)]));
}

/** Protocol errors by which a group goes on without a member. */
const takenAway = ['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'FENCED_INSTANCE_ID'];

/** By name, because kafkajs exports its errors in a form that a module cannot import by name. */
export function judge(error: unknown): BrokerRefusal | undefined {
  if (!(error instanceof Error) || !error.name.startsWith('KafkaJS')) return undefined;
  const { type = '', retriable } = error as { type?: string; retriable?: boolean };
  if (error.name === 'KafkaJSSASLAuthenticationError') return 'login';
  if (type.endsWith('_AUTHORIZATION_FAILED')) return 'right';
  if (takenAway.includes(type)) return 'taken';
  return error.name === 'KafkaJSProtocolError' && retriable === true ? 'later' : 'other';
}
