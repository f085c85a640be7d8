import { backoffMs, inSpan, withDeadline, type Logger } from '@triplock/runtime';
import { Redis } from 'ioredis';
import { ClaimsUnavailableError } from '../claims.ts';
import { redisSpan } from './redis-span.ts';
import { watchServer } from './watch-server.ts';

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
  /** The run_id of the server. @throws ClaimsUnavailableError while it is away or unfit. */
  runId(): string;
  /** Runs one atomic step. @throws ClaimsUnavailableError when the outcome is unknown. */
  run(script: keyof Scripts & string, call: ScriptCall): Promise<unknown>;
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
  const watch = watchServer(redis, options.logger);
  const answer = { ms: options.answerTimeoutMs, what: 'Redis' };

  const runId = () => {
    const verdict = watch.verdict();
    if (verdict.state === 'suitable') return verdict.runId;
    if (verdict.state === 'unfit') throw unavailable(verdict.error);
    throw new ClaimsUnavailableError('Redis is away');
  };
  const connection: RedisConnection<Scripts> = {
    runId,
    async run(script, { keys, values }) {
      runId();
      // The client's own time-out begins when a command is written; the wait for the pipeline
      // before it is only limited here.
      const reply = inSpan(redisSpan(script), () =>
        withDeadline((redis as unknown as Scripted)[script]!(...keys, ...values), answer),
      );
      return reply.catch((error: unknown) => Promise.reject(unavailable(error)));
    },
    async ping() {
      if (watch.verdict().state === 'away') throw new ClaimsUnavailableError('Redis is away');
      await withDeadline(watch.inspect(), answer).catch((error: unknown) =>
        Promise.reject(unavailable(error)),
      );
      runId();
    },
    async close() {
      watch.stop();
      // Politely first, so that what was sent is answered; a server that hangs is left.
      await withDeadline(redis.quit(), answer).catch(() => redis.disconnect());
    },
  };

  await withDeadline(watch.firstInspected, answer).catch(() => {
    options.logger.warn('redis does not answer at startup, will keep trying');
  });
  const verdict = watch.verdict();
  if (verdict.state !== 'unfit') return connection;
  await connection.close();
  throw verdict.error;
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
    // Commands of one turn of the event loop travel together: fewer system calls on both sides.
    enableAutoPipelining: true,
    // What was not answered before the connection broke is unknown, and is told so at once: sent
    // again it would meet its own claim, and queued it would make a dead Redis hang requests.
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

function unavailable(error: unknown): ClaimsUnavailableError {
  const message = error instanceof Error ? error.message : String(error);
  return new ClaimsUnavailableError(message, { cause: error });
}
