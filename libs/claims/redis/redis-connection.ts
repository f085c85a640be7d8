import { backoffMs, inSpan, withDeadline, type Logger, type SpanSpec } from '@triplock/runtime';
import { Redis } from 'ioredis';
import { ClaimsUnavailableError, unavailable, type StoreMemory } from '../claims.ts';
import { timeOf, watchServer, type KnownServer } from './redis-server.ts';

/** Lua scripts by the name they are called by. */
export type RedisScripts = Readonly<Record<string, { lua: string; numberOfKeys: number }>>;

/** How to reach the server; the time-out is for connecting and for every answer, milliseconds. */
type Reach = { url: string; scripts: RedisScripts; answerTimeoutMs: number };

export type RedisConnectionOptions<Scripts extends RedisScripts> = Reach & {
  scripts: Scripts;
  logger: Logger;
  /**
   * Called before a server is used of which the silence proves nothing, although it is the one that
   * it was: see {@link watchServer}. Rejects when it could not act on it, and is called again.
   */
  onDoubt?(run: RunScript<keyof Scripts & string>): Promise<void>;
};

/** Runs one atomic step. */
export type RunScript<Script extends string> = (
  script: Script,
  call: ScriptCall,
) => Promise<unknown>;

/** A connection that sends nothing to a server it does not know. */
export type RedisConnection<Scripts extends RedisScripts> = {
  /** @throws ClaimsUnavailableError while the server is away, a replica or unfit. */
  server(): KnownServer;
  /** @throws ClaimsUnavailableError when the outcome is unknown. */
  run: RunScript<keyof Scripts & string>;
  /** Sends commands that only read. @throws ClaimsUnavailableError when there is no answer. */
  read<Answer>(commands: (redis: Redis) => Promise<Answer>): Promise<Answer>;
  /** The server's memory as it was last seen, two seconds ago at most; nothing while it is away. */
  memory(): StoreMemory | undefined;
  /** Asks the server whether it is there and still fit for claims. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

/** The KEYS and ARGV of one run. */
export type ScriptCall = { keys: readonly string[]; values: readonly (string | number)[] };

type Scripted = Record<string, (...args: (string | number)[]) => Promise<unknown>>;

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
  const answer = { ms: options.answerTimeoutMs, what: 'Redis' };
  // The client's own time-out begins when a command is written; the wait for the pipeline before it
  // is only limited here.
  const call: RunScript<string> = (script, { keys, values }) =>
    withDeadline((redis as unknown as Scripted)[script]!(...keys, ...values), answer);
  const server = watchServer(redis, {
    logger: options.logger,
    onDoubt: async () => options.onDoubt?.(call),
  });

  const known = (): KnownServer => {
    const now = server.state();
    switch (now.state) {
      case 'suitable':
        return { history: now.history, nowMs: timeOf(now) };
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
    server: known,
    async run(script, toCall) {
      known();
      const reply = inSpan(redisSpan(script), () => call(script, toCall));
      return reply.catch((error: unknown) => Promise.reject(unavailable(error)));
    },
    async read(commands) {
      known();
      return withDeadline(commands(redis), answer).catch((error: unknown) =>
        Promise.reject(unavailable(error)),
      );
    },
    memory() {
      const now = server.state();
      return now.state === 'suitable' ? now.memory : undefined;
    },
    async ping() {
      if (server.state().state === 'away') throw new ClaimsUnavailableError('Redis is away');
      await withDeadline(server.inspect(), answer).catch((error: unknown) =>
        Promise.reject(unavailable(error)),
      );
      known();
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

function openClient({ url, scripts, answerTimeoutMs }: Reach): Redis {
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
