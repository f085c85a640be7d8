import { createRequire } from 'node:module';
import { connect as connectTcp, type Socket } from 'node:net';
import type { Logger } from '@triplock/runtime';
import { Kafka, logLevel, type ISocketFactory, type logCreator, type RetryOptions } from 'kafkajs';

restIdleQueues();

/** Which brokers to talk to, and as whom. */
export type BrokerConnection = {
  /** `host:port` of some brokers; the others are learned from them. */
  brokers: readonly string[];
  /** Shown in the brokers' logs and quotas. */
  clientId: string;
  logger: Logger;
  /** Makes a TCP connection to a broker; tests put a bad network here. */
  connect?: (broker: { host: string; port: number }) => Socket;
};

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
  const connect = connection.connect ?? ((broker) => connectTcp(broker));
  const sockets = new Set<Socket>();
  let destroyed = false;

  const socketFactory: ISocketFactory = ({ host, port, onConnect }) => {
    if (destroyed) throw new Error('this client was discarded');
    const socket = connect({ host, port });
    sockets.add(socket);
    return socket
      .setNoDelay(true)
      .setKeepAlive(true, 60_000)
      .once('connect', onConnect)
      .once('close', () => sockets.delete(socket));
  };
  const kafka = new Kafka({
    brokers: [...connection.brokers],
    clientId: connection.clientId,
    connectionTimeout: connectTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    retry: limits.retry,
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
