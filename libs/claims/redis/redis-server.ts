import type { Logger } from '@triplock/runtime';
import type { Redis } from 'ioredis';
import type { StoreMemory } from '../claims.ts';
import { redisPackage } from './package.ts';

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

/** What is known of a server. */
export type KnownServer = {
  /**
   * What it has remembered without a gap since a time: another one after every restart, restore and
   * failover, and after it was a replica.
   */
  history: string;
  /** The time that its clock should show now, milliseconds. */
  nowMs: number;
};

/** What is known of the server at the other end of the connection. */
type ServerState =
  /** Its clock showed `clockMs` at `seenAt` of `performance.now()`. */
  | { state: 'suitable'; history: string; clockMs: number; seenAt: number; memory: StoreMemory }
  /** It takes no writes, and what it has may be older than what another server promised. */
  | { state: 'replica' }
  | { state: 'unfit'; error: RedisPolicyError }
  /** It does not answer, or (`refusal`) answers that this user may not ask, and nothing else. */
  | { state: 'away'; refusal?: string };

/** Knows at any time which server, if any, the connection leads to. */
export type ServerWatch = {
  state(): ServerState;
  /** Resolves once a server was inspected for the first time. */
  firstInspected: Promise<void>;
  /** Asks the server again; rejects when it does not answer. */
  inspect(): Promise<void>;
  stop(): void;
};

// Until the next look, a server that fails over is refused by the scripts and answers nothing. A
// policy that is changed at run time is noticed before memory has time to fill up.
const inspectionIntervalMs = 2_000;

/**
 * Watches a connection: at every connect, and every two seconds, it learns the server's history,
 * clock and eviction policy, and at the loss of the connection it forgets them at once. What is
 * known may be two seconds old, so the scripts compare it with the server that runs them.
 *
 * Two things leave a server's history as it was and make its silence worthless: its clock was set,
 * which may have ended claims early; or another server was used since, with claims that this one
 * has never seen (a proxy or an address that led elsewhere and back). On either `onDoubt` comes
 * before the server is used again.
 */
export function watchServer(
  redis: Redis,
  { logger, onDoubt }: { logger: Logger; onDoubt(): Promise<void> },
): ServerWatch {
  let known: ServerState = { state: 'away' };
  let latest: Suitable | undefined;
  const left = new Set<string>();
  let connections = 0;
  const first = Promise.withResolvers<void>();

  const inspect = async () => {
    const connection = connections;
    const next = await inspectServer(redis);
    if (next.state === 'suitable') {
      if (left.has(next.history) || clockWasSet(latest, next)) {
        logger.error('redis was left for another, or its clock was set: its buckets become cold');
        await onDoubt();
      }
      left.delete(next.history);
      if (latest !== undefined && latest.history !== next.history) left.add(latest.history);
    }
    // An answer of a connection that is gone means nothing for the next one.
    if (connection !== connections)
      throw new Error('the connection to Redis was lost while it was inspected');
    if (next.state === 'suitable') latest = next;
    if (next.state !== known.state) logState(logger, next);
    known = next;
    first.resolve();
  };
  const lose = () => {
    connections += 1;
    if (known.state !== 'away') logger.warn('redis does not answer');
    if (known.state !== 'away' || known.refusal === undefined) known = { state: 'away' };
  };
  // A refusal stays known while the server goes on answering, so that nobody takes it for trouble
  // of the network. A server that stops answering is away.
  const note = (error: unknown) => {
    if (error instanceof redisPackage().ReplyError)
      known = { state: 'away', refusal: (error as Error).message };
    else if (known.state === 'away') known = { state: 'away' };
  };
  const reconnect = (error: unknown) => {
    logger.warn({ err: error }, 'redis could not be inspected, reconnecting');
    note(error);
    redis.disconnect(true);
  };

  redis.on('ready', () => void inspect().catch(reconnect));
  redis.on('close', lose);
  redis.on('error', (error: Error) => {
    logger.debug({ err: error }, 'redis connection failed');
    note(error);
  });
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
  const [info, [seconds, micros]] = await Promise.all([redis.info(), redis.time()]);
  const clockMs = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  const field = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
  const [runId, replicationId] = [field('run_id'), field('master_replid')];
  if (runId === undefined || replicationId === undefined) {
    throw new Error('Redis shows no run_id or no master_replid in INFO');
  }
  if (field('role') === 'slave') return { state: 'replica' };
  const policy = field('maxmemory_policy');
  if (policy === 'noeviction') {
    const history = `${runId}/${replicationId}`;
    const [usedBytes, limitBytes] = ['used_memory', 'maxmemory'].map((name) => Number(field(name)));
    // A limit of 0 is none.
    const memory = { usedBytes: usedBytes!, ...(limitBytes! > 0 && { limitBytes: limitBytes! }) };
    return { state: 'suitable', history, clockMs, seenAt: performance.now(), memory };
  }
  return { state: 'unfit', error: new RedisPolicyError(policy) };
}

type Suitable = Extract<ServerState, { state: 'suitable' }>;

/** The time that a server's clock should show by now. */
export function timeOf({ clockMs, seenAt }: Suitable): number {
  return Math.round(clockMs + performance.now() - seenAt);
}

// As in warm-marker.lua. An answer may be on its way for seconds, and a minute more or less of a
// claim's 24 hours is within what the ledger may be late.
const clockJumpMs = 60_000;

/** Whether the clock of one and the same server moved otherwise than time passed here. */
function clockWasSet(before: Suitable | undefined, now: Suitable): boolean {
  if (before?.history !== now.history) return false;
  return Math.abs(now.clockMs - timeOf(before)) > clockJumpMs;
}

function logState(logger: Logger, server: ServerState): void {
  if (server.state === 'unfit') logger.error({ err: server.error }, 'redis is unfit for claims');
  else if (server.state === 'replica') logger.error('redis is a replica, which takes no claims');
  else logger.info('redis answers');
}
