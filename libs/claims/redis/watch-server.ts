import type { Logger } from '@triplock/runtime';
import type { Redis } from 'ioredis';
import { inspectServer } from './inspect-server.ts';

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

/** What is known of the server at the other end of the connection. */
export type ServerVerdict =
  | { state: 'suitable'; runId: string }
  | { state: 'unfit'; error: RedisPolicyError }
  | { state: 'away' };

/** Knows at any time which server, if any, the connection leads to. */
export type ServerWatch = {
  verdict(): ServerVerdict;
  /** Resolves once a server was inspected for the first time. */
  firstInspected: Promise<void>;
  /** Asks the server again; rejects when it does not answer. */
  inspect(): Promise<void>;
  stop(): void;
};

// Often enough that a policy changed at run time is noticed before memory has time to fill up.
const inspectionIntervalMs = 5_000;

/**
 * Watches a connection: at every connect it learns the server's run_id and eviction policy, and at
 * the loss of the connection it forgets both at once. A TCP connection never outlives the server
 * process, so what is known always concerns the server that will run the next script.
 */
export function watchServer(redis: Redis, logger: Logger): ServerWatch {
  let verdict: ServerVerdict = { state: 'away' };
  let connections = 0;
  const first = Promise.withResolvers<void>();

  const inspect = async () => {
    const connection = connections;
    const { runId, maxmemoryPolicy } = await inspectServer(redis);
    // An answer of a connection that is gone says nothing about the next one.
    if (connection !== connections)
      throw new Error('the connection to Redis was lost while it was inspected');
    const next: ServerVerdict =
      maxmemoryPolicy === 'noeviction'
        ? { state: 'suitable', runId }
        : { state: 'unfit', error: new RedisPolicyError(maxmemoryPolicy) };
    if (next.state !== verdict.state) report(logger, next);
    verdict = next;
    first.resolve();
  };
  const lose = () => {
    connections += 1;
    if (verdict.state !== 'away') logger.warn('redis does not answer');
    verdict = { state: 'away' };
  };
  const reconnect = (error: unknown) => {
    logger.warn({ err: error }, 'redis could not be inspected, reconnecting');
    redis.disconnect(true);
  };

  redis.on('ready', () => void inspect().catch(reconnect));
  redis.on('close', lose);
  redis.on('error', (error: Error) => logger.debug({ err: error }, 'redis connection failed'));
  const timer = setInterval(() => {
    if (verdict.state !== 'away') inspect().catch(reconnect);
  }, inspectionIntervalMs).unref();
  return {
    verdict: () => verdict,
    firstInspected: first.promise,
    inspect,
    stop: () => clearInterval(timer),
  };
}

function report(logger: Logger, verdict: ServerVerdict): void {
  if (verdict.state === 'unfit') logger.error({ err: verdict.error }, 'redis is unfit for claims');
  else logger.info('redis answers');
}
