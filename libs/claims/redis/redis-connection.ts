import { readFileSync } from 'node:fs';
import {
  backoffMs,
  inBatches,
  inSpan,
  withDeadline,
  type Logger,
  type SpanSpec,
} from '@triplock/runtime';
import type { Redis, RedisOptions } from 'ioredis';
import { ClaimsUnavailableError, unavailable, type StoreMemory } from '../claims.ts';
import { redisPackage } from './package.ts';
import { timeOf, watchServer, type KnownServer, type ServerWatch } from './redis-server.ts';

/** An atomic step, and where it may be sent with others the same for several calls in turn. */
export type Script = { lua: string; numberOfKeys: number; each?: string };

/** Lua scripts by the name they are called by. */
export type RedisScripts = Readonly<Record<string, Script>>;

const each = readFileSync(new URL('each.lua', import.meta.url), 'utf8');

/** A step that is taken for each of several calls: each.lua says how. */
export function takeEach(functions: string, body: string): string {
  return `${functions}\nlocal function step(KEYS, ARGV)\n${body}\nend\n${each}`;
}

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
  /**
   * Runs one atomic step with others of it that come by the same turn of the event loop, or while
   * those before them are under way. `shared` gives the first values, when the batch is sent; a
   * call's own follow, as many for each. It rejects as `run` does, each call for itself.
   */
  together(
    script: keyof Scripts & string,
    shared: () => readonly (string | number)[],
  ): (call: ScriptCall) => Promise<unknown>;
  /** Sends commands that only read. @throws ClaimsUnavailableError when there is no answer. */
  read<Answer>(commands: (redis: Redis) => Promise<Answer>): Promise<Answer>;
  /** The server's memory as it was last seen, two seconds ago at most; nothing while it is away. */
  memory(): StoreMemory | undefined;
  /** Asks the server whether it is there and still fit for claims. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

/** The KEYS and ARGV of one run. */
export type ScriptCall = {
  keys: readonly (string | number)[];
  values: readonly (string | number)[];
};

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

  const known = () => knownServer(server.state());
  const connection: RedisConnection<Scripts> = {
    server: known,
    async run(script, toCall) {
      known();
      const reply = inSpan(redisSpan(script), () => call(script, toCall));
      return reply.catch((error: unknown) => Promise.reject(unavailable(error)));
    },
    together: (script, shared) =>
      gatherCalls({ call, known, limit: answer, script, of: options.scripts[script], shared }),
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
      const now = server.state();
      if (now.state === 'away') throw away(now);
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

// What comes while a batch is under way goes with the next one: a client and a server that are busy
// share the cost of a round trip among more. Of so many a server is held up for some milliseconds.
const batchLimits = { itemsMax: 100 };

type Values = readonly (string | number)[];
type Settled = { reply: unknown } | { error: unknown };

/** What {@link RedisConnection.together} needs of a connection. */
type Gathering = {
  call: RunScript<string>;
  known(): void;
  limit: { ms: number; what: string };
  script: string;
  of: Script;
  shared: () => Values;
};

/** Each call has its own deadline, from when it came: one that waits for a batch is in time too. */
function gatherCalls(gathering: Gathering): (call: ScriptCall) => Promise<unknown> {
  const { known, limit, script, shared } = gathering;
  const sendAll = sendTogether(gathering);
  const gather = inBatches(async (calls: readonly ScriptCall[]) => {
    known();
    return sendAll(calls, shared());
  }, batchLimits);
  return async (call) => {
    const settled = await withDeadline(
      inSpan(redisSpan(script), () => gather(call)),
      limit,
    ).catch((error: unknown): Settled => ({ error }));
    if ('error' in settled) throw unavailable(settled.error);
    return settled.reply;
  };
}

/**
 * Sends several calls of a script as one. Each is as atomic as it is alone, and nothing else comes
 * between them. Of a batch without an answer every call is unknown, as if each had been sent alone:
 * whoever made one asks again, or has it released.
 *
 * On Redis Cluster, or behind a proxy that spreads keys, a script may touch keys of one slot only,
 * and calls differ in theirs. The server refuses such a batch before it runs any of it; from then
 * on each call is a command of its own, and they share a pipeline.
 */
function sendTogether({ call, script, of }: Gathering) {
  let inOneSlot = true;
  const sendAlone = ({ keys, values }: ScriptCall, shared: Values): Promise<Settled> =>
    call(script, { keys, values: [...shared, ...values] }).then(
      (reply) => ({ reply }),
      (error: unknown) => ({ error }),
    );
  return async (calls: readonly ScriptCall[], shared: Values): Promise<Settled[]> => {
    const own = calls[0]!.values.length;
    if (inOneSlot) {
      const keys = calls.flatMap((each) => each.keys);
      const values = [of.numberOfKeys, own, ...shared, ...calls.flatMap((each) => each.values)];
      try {
        const replies = await call(nameOfEach(script), { keys: [keys.length, ...keys], values });
        return (replies as [unknown, string?][]).map(([reply, error]) =>
          error === undefined ? { reply } : { error: new Error(error) },
        );
      } catch (error) {
        if (!isCrossSlot(error)) throw error;
        inOneSlot = false;
      }
    }
    return Promise.all(calls.map((each) => sendAlone(each, shared)));
  };
}

function isCrossSlot(error: unknown): boolean {
  return error instanceof Error && /CROSSSLOT|same slot/.test(error.message);
}

/** @throws ClaimsUnavailableError for one that claims may not be made on. */
function knownServer(now: ReturnType<ServerWatch['state']>): KnownServer {
  switch (now.state) {
    case 'suitable':
      return { history: now.history, nowMs: timeOf(now) };
    case 'unfit':
      throw unavailable(now.error);
    case 'replica':
      throw new ClaimsUnavailableError('Redis is a replica');
    case 'away':
      throw away(now);
    default:
      return now satisfies never;
  }
}

const away = ({ refusal }: { refusal?: string }) =>
  new ClaimsUnavailableError(refusal === undefined ? 'Redis is away' : `Redis refuses: ${refusal}`);

const nameOfEach = (script: string) => `${script}Each`;

/** Each script under its name, and as it is taken for several calls under another. */
function definitionsOf(scripts: RedisScripts): RedisOptions['scripts'] {
  const definitions = Object.entries(scripts).flatMap(([name, { lua, numberOfKeys, each }]) => [
    [name, { lua, numberOfKeys }] as const,
    ...(each === undefined ? [] : [[nameOfEach(name), { lua: each }] as const]),
  ]);
  return Object.fromEntries(definitions);
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
  const { Redis } = redisPackage();
  return new Redis(url, {
    scripts: definitionsOf(scripts),
    connectionName: 'triplock-claims',
    disableClientInfo: true,
    // Commands of one tick of the event loop travel together: fewer system calls on both sides. A
    // batch is such a crowd already, and a pipeline around it would cost as much again.
    enableAutoPipelining: true,
    autoPipeliningIgnoredCommands: Object.keys(scripts).map(nameOfEach),
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
