import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connectRedis, takeEach, type OwnerToken } from '@triplock/claims';
import type { Logger } from '@triplock/runtime';
import type { OnceKey, OpenedOnceStore, StartOutcome } from '../once.ts';

const lua = (file: string) => readFileSync(new URL(file, import.meta.url), 'utf8');

const startLua = lua('start.lua');

/** The atomic steps by the name they are called by. Each file opens with its contract. */
const scripts = {
  startEffect: { lua: startLua, numberOfKeys: 1, each: takeEach('', startLua) },
  renewEffect: { lua: lua('renew.lua'), numberOfKeys: 1 },
  finishEffect: { lua: lua('finish.lua'), numberOfKeys: 1 },
} as const;

/** Where effects are remembered. */
export type RedisOnceOptions = {
  url: string;
  /** Begins every key, so that several systems can share a server. */
  namespace: string;
  logger: Logger;
  /** How long the server may take to answer, milliseconds; 1.5 s by default. */
  answerTimeoutMs?: number;
};

/**
 * Effects remembered in Redis 6.2 or newer, one hash for each, which leaves by itself. The server
 * may be away: every step then rejects with a ClaimsUnavailableError until it is back.
 *
 * What Redis forgets, by FLUSHALL, a crash before its next fsync or a failover, can happen again:
 * there is no ledger behind these keys that could be asked. The fence grows all the same.
 *
 * @throws RedisPolicyError when the server is there and may evict keys.
 */
export async function openRedisOnce(options: RedisOnceOptions): Promise<OpenedOnceStore> {
  const { url, namespace, logger, answerTimeoutMs = 1_500 } = options;
  const redis = await connectRedis({ url, scripts, answerTimeoutMs, logger });
  // Starts that come by one turn of the event loop are one call. Results are too long for that:
  // what finishes shares a pipeline.
  const start = redis.together('startEffect', () => []);
  // The length says where the scope ends.
  const recordOf = ({ scope, key }: Pick<OnceKey, 'scope' | 'key'>) => [
    `{${namespace}:once:${scope.length}:${scope}:${key}}`,
  ];

  return {
    async start(step) {
      const token = randomUUID() as OwnerToken;
      const values = [token, step.fingerprint, step.leaseMs, step.keepMs];
      return parseStartReply(await start({ keys: recordOf(step), values }), token);
    },
    async renew(owner, leaseMs) {
      const values = [owner.token, leaseMs];
      const renewed = await redis.run('renewEffect', { keys: recordOf(owner), values });
      return renewed === 1 ? 'renewed' : 'lost';
    },
    async finish(owner, { state, result = '' }) {
      const values = [owner.token, state, result];
      const finished = await redis.run('finishEffect', { keys: recordOf(owner), values });
      return finished === 1 ? 'finished' : 'lost';
    },
    close: () => redis.close(),
  };
}

/** What start.lua replied, as its contract names it. */
function parseStartReply(reply: unknown, token: OwnerToken): StartOutcome {
  const [outcome, value] = reply as [StartOutcome['outcome'], string | number];
  switch (outcome) {
    case 'started':
      return { outcome, token, fence: BigInt(value) };
    case 'completed':
    case 'failed':
      return { outcome, result: String(value) };
    case 'in-flight':
      return { outcome, leaseLeftMs: Number(value) };
    case 'reused':
      return { outcome };
    default:
      return outcome satisfies never;
  }
}
