import { randomUUID } from 'node:crypto';
import { bucketCount, claimLifeMs } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import type { Logger } from '@triplock/runtime';
import type { ClaimOwner, Claims, OwnerToken } from '../claims.ts';
import { releaseLate } from '../release-late.ts';
import { connectRedis } from './connect-redis.ts';
import { scripts } from './load-scripts.ts';
import { parseClaimReply, parseNoteReply, parseReadReply } from './parse-reply.ts';

/** Where claims live and for how long; times in milliseconds. */
export type RedisClaimsOptions = {
  url: string;
  /** Begins every key, so that several systems can share a server. */
  namespace: string;
  logger: Logger;
  /** How long the one at work is left alone; 30 s by default: ten times a request's limit. */
  leaseMs?: number;
  /** How long a claim is remembered; 24 h by default, which is what partners are promised. */
  lifeMs?: number;
  /** How long the server may take to answer; 1.5 s by default: half of a request's limit. */
  answerTimeoutMs?: number;
};

/**
 * Guard 1 on Redis 6.2 or newer: one hash per claim and one warm marker per bucket, and one Lua
 * script per method. The server may be away: claims then reject until it is back.
 *
 * @throws RedisPolicyError when the server is there and may evict claims.
 */
export async function openRedisClaims(options: RedisClaimsOptions): Promise<Claims> {
  const { namespace, logger, leaseMs = 30_000, lifeMs = claimLifeMs } = options;
  const { url, answerTimeoutMs = 1_500 } = options;
  const redis = await connectRedis({ url, scripts, answerTimeoutMs, logger });
  const markerOf = (bucket: number) => `{${namespace}:${bucket}}:marker`;
  // One hash tag for the record and its bucket's marker: scripts touch both, and Redis Cluster
  // runs a script only when all its keys are in one slot.
  const recordOf = (txnId: TxnId) =>
    `{${namespace}:${bucketOf(txnId, bucketCount)}}:claim:${txnId}`;
  const keysOf = (txnId: TxnId) => [markerOf(bucketOf(txnId, bucketCount)), recordOf(txnId)];
  const release = async ({ txnId, token }: ClaimOwner) => {
    const values = [token];
    const released = await redis.run('releaseRecord', { keys: [recordOf(txnId)], values });
    return released === 1 ? 'released' : 'lost';
  };
  const late = releaseLate({ release, leaseMs, logger });

  return {
    async claim({ txnId, partnerId, fingerprint, acceptedAt, shown, ledgerCheckedIn }) {
      const token = randomUUID() as OwnerToken;
      const request = [fingerprint, partnerId, acceptedAt.getTime(), shown];
      // Throws while the server is away: then nothing is sent that would have to be released.
      const values = [redis.runId(), token, ...request, leaseMs, lifeMs, ledgerCheckedIn ?? ''];
      try {
        const reply = await redis.run('claimRecord', { keys: keysOf(txnId), values });
        return parseClaimReply(reply, token);
      } catch (error) {
        late.add({ txnId, token });
        throw error;
      }
    },
    async complete({ txnId, token }, { status, location, body }) {
      const values = [token, status, location, body];
      const stored = await redis.run('completeRecord', { keys: [recordOf(txnId)], values });
      return stored === 1 ? 'completed' : 'lost';
    },
    async release(owner) {
      try {
        return await release(owner);
      } catch (error) {
        late.add(owner);
        throw error;
      }
    },
    async read(txnId) {
      const values = [redis.runId(), lifeMs];
      return parseReadReply(await redis.run('readRecord', { keys: keysOf(txnId), values }));
    },
    async noteLoss(bucket) {
      const values = [redis.runId(), randomUUID()];
      return parseNoteReply(await redis.run('noteLoss', { keys: [markerOf(bucket)], values }));
    },
    async setBarrier({ bucket, epoch, barrier, warm }) {
      const values = [epoch, barrier, warm ? '1' : '0'];
      await redis.run('setBarrier', { keys: [markerOf(bucket)], values });
    },
    async markCold(bucket) {
      await redis.run('markBucketCold', { keys: [markerOf(bucket)], values: [] });
    },
    ping: () => redis.ping(),
    close: async () => {
      await late.close();
      await redis.close();
    },
  };
}
