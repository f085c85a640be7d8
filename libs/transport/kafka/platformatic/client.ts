import { isIP } from 'node:net';
import {
  connectionsApiChannel,
  type Base,
  type BaseOptions,
  type ConnectionPool,
} from '@platformatic/kafka';
import type { BrokerAddress, BrokerConnection, BrokerRefusal } from '../driver.ts';

/** How long one request may take, and how often the library tries again by itself. */
export type ClientLimits = { requestTimeoutMs: number; retries: number; retryDelayMs: number };

/** For a connection, and for one on which the two ends have to prove who they are. */
const connectTimeoutMs = 1_000;
const proveTimeoutMs = 2_000;

/** The library's options for a connection. */
export function clientOptions(connection: BrokerConnection, limits: ClientLimits): BaseOptions {
  const { brokers, clientId, login, tls } = connection;
  const isNamed = brokers.every((broker) => isIP(broker.slice(0, broker.lastIndexOf(':'))) === 0);
  return {
    clientId,
    bootstrapBrokers: [...brokers],
    connectTimeout: tls === 'on' || login ? proveTimeoutMs : connectTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    timeout: limits.requestTimeoutMs,
    retries: limits.retries,
    retryDelay: limits.retryDelayMs,
    autocreateTopics: false,
    // An address has no name that could be asked for (RFC 6066, 3): its certificate is for itself.
    ...(tls === 'on' && { tls: {}, tlsServerName: isNamed }),
    ...(login && {
      sasl: {
        mechanism: login.mechanism === 'plain' ? 'PLAIN' : 'SCRAM-SHA-512',
        username: login.username,
        password: login.password,
      },
    }),
  };
}

type Throttled = NonNullable<BrokerConnection['onThrottled']>;

/** Who is told for how long a broker holds a connection back; every answer says so. */
const throttled = new WeakMap<object, Throttled>();

connectionsApiChannel.asyncStart.subscribe((message) => {
  const { connection, result } = message as { connection: object; result?: unknown };
  const ms = (result as { throttleTimeMs?: number } | undefined)?.throttleTimeMs ?? 0;
  if (ms > 0) throttled.get(connection)?.(ms);
});

/**
 * Has a client's sockets dialled where the connection says. An error of a socket after its first
 * has no listener in the library, and would end the process.
 */
export function prepare(pool: ConnectionPool, options: BrokerConnection): void {
  const { dial, logger, onThrottled } = options;
  pool.on('connecting', ({ connection }) => {
    if (onThrottled) throttled.set(connection, onThrottled);
    connection.on('error', (error) => logger.debug({ err: error }, 'a connection to Kafka failed'));
  });
  pool.on('connect', ({ connection }) => void connection.socket.setKeepAlive(true, 60_000));
  if (dial === undefined) return;
  const redirected = (broker: BrokerAddress | undefined) => broker && dial(broker);
  const get = pool.get.bind(pool) as (...args: unknown[]) => Promise<never>;
  const getEstablished = pool.getEstablishedConnection.bind(pool);
  Object.assign(pool, {
    get: (broker: BrokerAddress | undefined, ...rest: unknown[]) =>
      get(redirected(broker), ...rest),
    getEstablishedConnection: (broker: BrokerAddress) => getEstablished(dial(broker)),
  });
}

/**
 * Ends a client at once. The library's own `close` lets what is written go out first, which a hung
 * broker never takes.
 */
export function destroyClient(client: Base, { logger }: BrokerConnection): void {
  destroyPool(client.connections);
  client.close().catch((error: unknown) => {
    logger.debug({ err: error }, 'a discarded client did not close');
  });
}

/** Ends all connections of a pool at once; it opens no other. */
export function destroyPool(pool: ConnectionPool): void {
  // One that is being opened has no socket yet, or ends by its own time-out.
  for (const [, connection] of pool) connection.socket?.destroy();
  pool.close(() => undefined);
}

/** The group went on without this member. */
export class TakenAwayError extends Error {
  override name = 'TakenAwayError';
}

/** What the library's errors are made of; a failure of several tries has one for each. */
type Cause = { code?: unknown; apiId?: unknown; canRetry?: unknown };

const takenAway = ['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'FENCED_INSTANCE_ID'];

/** By what is in the errors: one of several tries has the errors of all of them. */
export function judge(error: unknown): BrokerRefusal | undefined {
  if (error instanceof TakenAwayError) return 'taken';
  const causes = causesOf(error);
  const isOwn = causes.some(({ code }) => typeof code === 'string' && code.startsWith('PLT_KFK_'));
  if (!isOwn) return undefined;
  if (causes.some(({ code }) => code === 'PLT_KFK_AUTHENTICATION')) return 'login';
  const answers = causes.flatMap(({ apiId, canRetry }) =>
    typeof apiId === 'string' ? [{ apiId, canRetry }] : [],
  );
  if (answers.some(({ apiId }) => apiId.endsWith('_AUTHORIZATION_FAILED'))) return 'right';
  if (answers.some(({ apiId }) => takenAway.includes(apiId))) return 'taken';
  const canTellLater = answers.length > 0 && answers.every(({ canRetry }) => canRetry === true);
  return canTellLater ? 'later' : 'other';
}

/** Whether a broker answered with one of these errors. */
export function isAnswer(error: unknown, ...apiIds: readonly string[]): boolean {
  return causesOf(error).some(({ apiId }) => typeof apiId === 'string' && apiIds.includes(apiId));
}

function causesOf(error: unknown): Cause[] {
  if (!(error instanceof Error)) return [];
  const inner = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  return [error as Cause, ...[...inner, error.cause].flatMap(causesOf)];
}
