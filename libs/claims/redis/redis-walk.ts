import type { Fingerprint, PartnerId, TxnId } from '@triplock/payments';
import type { Redis } from 'ioredis';
import {
  claimTimes,
  ClaimsUnavailableError,
  type ClaimWalk,
  type CompletedClaim,
} from '../claims.ts';
import type { RedisClaimsOptions } from './redis-claims.ts';
import { connectRedis } from './redis-connection.ts';

// State, partner, fingerprint, accepted-at and the record's key: see claim.lua.
const walkedFields = ['s', 'p', 'f', 'a', 'r'] as const;

/**
 * Walks over the claims of a server by SCAN, some keys at a time, and by one HMGET for each claim:
 * the server is never held up, and no claim costs more for being walked over.
 *
 * A cursor means something to the server process that gave it alone, so it carries that one's
 * history. A node of a Redis Cluster is refused: it would show its own claims as if they were all.
 */
export async function openRedisWalk(options: RedisClaimsOptions): Promise<ClaimWalk> {
  const { url, namespace, logger, answerTimeoutMs } = { ...claimTimes, ...options };
  const redis = await connectRedis({ url, scripts: {}, answerTimeoutMs, logger });
  const pattern = `{${namespace.replaceAll(/[\\?*[\]]/g, '\\$&')}:*}:claim:*`;
  const keyStart = /^\{.*\}:claim:/;
  return {
    async walk({ after = '', limit }) {
      const { history } = redis.server();
      const [cursor = '0', begunIn] = after.split('@');
      const isFirst = begunIn !== history;
      if (isFirst) await redis.read(requireAllClaims);
      const from = isFirst ? '0' : cursor;
      const [next, keys] = await redis.read((server) =>
        server.scan(from, 'MATCH', pattern, 'COUNT', limit),
      );
      const records = await redis.read((server) =>
        Promise.all(keys.map((key) => server.hmget(key, ...walkedFields))),
      );
      const claims = records.flatMap((record, at): CompletedClaim[] => {
        const [state, partnerId, fingerprint, acceptedAt, recordKey] = record;
        if (state !== 'completed') return [];
        const txnId = keys[at]!.replace(keyStart, '') as TxnId;
        return [
          {
            txnId,
            partnerId: partnerId as PartnerId,
            fingerprint: fingerprint as Fingerprint,
            acceptedAt: new Date(Number(acceptedAt)),
            recordKey: (recordKey ?? txnId) as TxnId,
          },
        ];
      });
      if (redis.server().history !== history)
        throw new ClaimsUnavailableError('Redis was replaced');
      return next === '0' ? { claims } : { claims, next: `${next}@${history}` };
    },
    close: () => redis.close(),
  };
}

async function requireAllClaims(server: Redis): Promise<void> {
  if (!/^cluster_enabled:1/m.test(await server.info('cluster'))) return;
  throw new ClaimsUnavailableError('a node of a Redis Cluster has only some of the claims');
}
