import { connect as connectTcp, type Socket } from 'node:net';
import type { Logger } from '@triplock/runtime';
import { Kafka, logLevel, type ISocketFactory, type RetryOptions } from 'kafkajs';
import { logToPino } from './log-to-pino.ts';
import { restIdleQueues } from './rest-idle-queues.ts';

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
