import { backoffMs, inSpan, withDeadline, type Logger, type SpanSpec } from '@triplock/runtime';
import { Redis } from 'ioredis';
import { ClaimsUnavailableError, unavailable } from '../claims.ts';

/** Lua scripts by the name they are called by. */
export type RedisScripts = Readonly<Record<string, { lua: string; numberOfKeys: number }>>;

/** How to reach the server; the time-out is for connecting and for every answer, milliseconds. */
export type RedisConnectionOptions<Scripts extends RedisScripts> = {
  url: string;
  scripts: Scripts;
  answerTimeoutMs: number;
  logger: Logger;
};

/** A connection that sends nothing to a server it does not know. */
export type RedisConnection<Scripts extends RedisScripts> = {
  /**
   * What the server has remembered without a gap since a time: another one after every restart,
   * restore and failover, and after it was a replica.
   *
   * @throws ClaimsUnavailableError while it is away, a replica or unfit.
   */
  history(): string;
  /** Runs one atomic step. @throws ClaimsUnavailableError when the outcome is unknown. */
  run(script: keyof Scripts & string, call: ScriptCall): Promise<unknown>;
  /** Asks the server whether it is there and still fit for claims. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

/** The KEYS and ARGV of one run. */
export type ScriptCall = { keys: readonly string[]; values: readonly (string | number)[] };

type Scripted = Record<string, (...args: (string | number)[]) => Promise<unknown>>;

/** Claims must not be forgotten one by one, because an eviction cannot be noticed. */
export class RedisPolicyError extends Error {
  override name = 'RedisPolicyError';
  constructor(policy: string | undefined) {
    super(
      `Redis has maxmemory-policy ${policy ?? 'unknown'}, which may drop claims unnoticed: ` +
        'set maxmemory-policy noeviction in its configuration',
    );
  }
}

/**
 * Opens a connection that comes back by itself. Resolves as soon as the server was inspected, or
 * without it when it is away for longer than the time-out.
 *
 * @throws RedisPolicyError when the server is there and may evict claims.
 */
export async function connectRedis<const Scripts extends RedisScripts>(
  options: RedisConnectionOptions<Scripts>,
): Promise<RedisConnection<Scripts>> {
  const redis = openClient(options);
  const server = watchServer(redis, options.logger);
  const answer = { ms: options.answerTimeoutMs, what: 'Redis' };

  const history = () => {
    const now = server.state();
    switch (now.state) {
      case 'suitable':
        return now.history;
      case 'unfit':
        throw unavailable(now.error);
      case 'replica':
        throw new ClaimsUnavailableError('Redis is a replica');
      case 'away':
        throw new ClaimsUnavailableError('Redis is away');
      default:
        return now satisfies never;
    }
  };
  const connection: RedisConnection<Scripts> = {
    history,
    async run(script, { keys, values }) {
      history();
      // The client's own time-out begins when a command is written; the wait for the pipeline
      // before it is only limited here.
      const reply = inSpan(redisSpan(script), () =>
        withDeadline((redis as unknown as Scripted)[script]!(...keys, ...values), answer),
      );
      return reply.catch((error: unknown) => Promise.reject(unavailable(error)));
    },
    async ping() {
      if (server.state().state === 'away') throw new ClaimsUnavailableError('Redis is away');
      await withDeadline(server.inspect(), answer).catch((error: unknown) =>
        Promise.reject(unavailable(error)),
      );
      history();
    },
    async close() {
      server.stop();
      // Politely first, so that what was sent is answered; a server that hangs is left.
      await withDeadline(redis.quit(), answer).catch(() => redis.disconnect());
    },
  };

  await withDeadline(server.firstInspected, answer).catch(() => {
    options.logger.warn('redis does not answer at startup, will keep trying');
  });
  const first = server.state();
  if (first.state !== 'unfit') return connection;
  await connection.close();
  throw first.error;
}

/**
 * A span of our own, and not by the instrumentation of ioredis: that one makes a command's span
 * when the pipeline that many requests share is written, in the context of whichever came first,
 * and writes the arguments of a script into it, which are the payment.
 */
export function redisSpan(script: string): SpanSpec {
  const attributes = { 'db.system.name': 'redis', 'db.query.summary': script };
  return { name: script, kind: 'client', attributes };
}

function openClient({
  url,
  scripts,
  answerTimeoutMs,
}: RedisConnectionOptions<RedisScripts>): Redis {
  return new Redis(url, {
    scripts: { ...scripts },
    connectionName: 'triplock-claims',
    disableClientInfo: true,
    // Commands of one tick of the event loop travel together: fewer system calls on both sides.
    enableAutoPipelining: true,
    // What was not answered before the connection broke is unknown, and is reported so at once:
    // sent again it would meet its own claim, and queued it would make a dead Redis hang requests.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    connectTimeout: answerTimeoutMs,
    commandTimeout: answerTimeoutMs,
    // A server that stands still keeps its connections open. Dropping ours makes every later
    // request fail at once instead of waiting for its own time-out.
    socketTimeout: answerTimeoutMs,
    retryStrategy: (attempt) => backoffMs(attempt, { firstMs: 50, maxMs: 1_000 }),
    // A primary that became a replica keeps its clients: leave it, to find the new primary.
    reconnectOnError: (error) => error.message.includes('READONLY'),
  });
}

/** What is known of the server at the other end of the connection. */
type ServerState =
  | { state: 'suitable'; history: string }
  /** It takes no writes, and what it has may be older than what another server promised. */
  | { state: 'replica' }
  | { state: 'unfit'; error: RedisPolicyError }
  | { state: 'away' };

/** Knows at any time which server, if any, the connection leads to. */
type ServerWatch = {
  state(): ServerState;
  /** Resolves once a server was inspected for the first time. */
  firstInspected: Promise<void>;
  /** Asks the server again; rejects when it does not answer. */
  inspect(): Promise<void>;
  stop(): void;
};

// A server that is demoted and promoted again keeps its connections: until the next look, its
// silence about what it lost meanwhile would be believed. A policy that is changed at run time is
// noticed before memory has time to fill up.
const inspectionIntervalMs = 2_000;

/**
 * Watches a connection: at every connect, and every two seconds, it learns the server's history
 * and eviction policy, and at the loss of the connection it forgets both at once. A TCP connection
 * never outlives the server process, so what is known concerns the server that will run the next
 * script; a change of its role is known two seconds later at most, or by the first write that it
 * refuses.
 */
function watchServer(redis: Redis, logger: Logger): ServerWatch {
  let known: ServerState = { state: 'away' };
  let connections = 0;
  const first = Promise.withResolvers<void>();

  const inspect = async () => {
    const connection = connections;
    const next = await inspectServer(redis);
    // An answer of a connection that is gone means nothing for the next one.
    if (connection !== connections)
      throw new Error('the connection to Redis was lost while it was inspected');
    if (next.state !== known.state) logState(logger, next);
    known = next;
    first.resolve();
  };
  const lose = () => {
    connections += 1;
    if (known.state !== 'away') logger.warn('redis does not answer');
    known = { state: 'away' };
  };
  const reconnect = (error: unknown) => {
    logger.warn({ err: error }, 'redis could not be inspected, reconnecting');
    redis.disconnect(true);
  };

  redis.on('ready', () => void inspect().catch(reconnect));
  redis.on('close', lose);
  redis.on('error', (error: Error) => logger.debug({ err: error }, 'redis connection failed'));
  const timer = setInterval(() => {
    if (known.state === 'away') return;
    inspect()
      // The address may lead to the new primary by now.
      .then(() => known.state === 'replica' && redis.disconnect(true))
      .catch(reconnect);
  }, inspectionIntervalMs).unref();
  return {
    state: () => known,
    firstInspected: first.promise,
    inspect,
    stop: () => clearInterval(timer),
  };
}

/**
 * Asks a server who it is and what it evicts: run_id is another one after every restart, restore
 * and failover, and master_replid after every time as a replica. It is also another one once the
 * first replica is attached, or all have been away for `repl-backlog-ttl`, which costs a needless
 * check in the ledger. All comes from one INFO, because managed services refuse CONFIG
 * (https://redis.io/docs/latest/commands/info/).
 */
async function inspectServer(redis: Redis): Promise<ServerState> {
  const info = await redis.info();
  const field = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
  const [runId, replicationId] = [field('run_id'), field('master_replid')];
  if (runId === undefined || replicationId === undefined) {
    throw new Error('Redis shows no run_id or no master_replid in INFO');
  }
  if (field('role') === 'slave') return { state: 'replica' };
  const policy = field('maxmemory_policy');
  if (policy === 'noeviction') return { state: 'suitable', history: `${runId}/${replicationId}` };
  return { state: 'unfit', error: new RedisPolicyError(policy) };
}

function logState(logger: Logger, server: ServerState): void {
  if (server.state === 'unfit') logger.error({ err: server.error }, 'redis is unfit for claims');
  else if (server.state === 'replica') logger.error('redis is a replica, which takes no claims');
  else logger.info('redis answers');
}
