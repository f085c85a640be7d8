import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type PartnerId, type TxnId } from '@triplock/payments';
import {
  claimTimes,
  type BucketEpoch,
  type BucketMarker,
  type ClaimOutcome,
  type ClaimOwner,
  type Claims,
  type ClaimsOptions,
  type Cold,
  type OwnerToken,
  type PendingRead,
} from '../claims.ts';
import { releaseLate } from '../late-releases.ts';
import { connectRedis } from './redis-connection.ts';

/** Where claims live. `namespace` begins every key, so that several systems can share a server. */
export type RedisClaimsOptions = ClaimsOptions & { url: string };

const lua = (file: string) => readFileSync(new URL(file, import.meta.url), 'utf8');
const marker = lua('warm-marker.lua');

/**
 * The atomic steps by the name they are called by. Each file opens with its contract. Read once at
 * import, so that a missing file fails the boot and not a payment.
 */
export const scripts = {
  claimRecord: { lua: marker + lua('claim.lua'), numberOfKeys: 2 },
  completeRecord: { lua: lua('complete.lua'), numberOfKeys: 1 },
  releaseRecord: { lua: lua('release.lua'), numberOfKeys: 1 },
  readRecord: { lua: marker + lua('read.lua'), numberOfKeys: 2 },
  noteLoss: { lua: marker + lua('note-loss.lua'), numberOfKeys: 1 },
  setBarrier: { lua: lua('set-barrier.lua'), numberOfKeys: 1 },
  markBucketCold: { lua: lua('mark-cold.lua'), numberOfKeys: 1 },
} as const;
export type ScriptName = keyof typeof scripts;

/**
 * Guard 1 on Redis 6.2 or newer: one hash per claim and one warm marker per bucket, and one Lua
 * script per method. The server may be away: claims then reject until it is back.
 *
 * @throws RedisPolicyError when the server is there and may evict claims.
 */
export async function openRedisClaims(options: RedisClaimsOptions): Promise<Claims> {
  const { url, namespace, logger, leaseMs, lifeMs, answerTimeoutMs } = {
    ...claimTimes,
    ...options,
  };
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
      const values = [redis.history(), token, ...request, leaseMs, lifeMs, ledgerCheckedIn ?? ''];
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
      const values = [redis.history(), lifeMs];
      return parseReadReply(await redis.run('readRecord', { keys: keysOf(txnId), values }));
    },
    async noteLoss(bucket) {
      const values = [redis.history(), randomUUID()];
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

/** What claim.lua replied, as its contract names it. */
function parseClaimReply(reply: unknown, token: OwnerToken): ClaimOutcome {
  const [outcome, ...rest] = reply as [string, ...(string | number)[]];
  switch (outcome) {
    case 'claimed':
      return { outcome, token, acceptedAt: new Date(Number(rest[0])) };
    case 'completed': {
      const [status, location, body] = rest;
      const answer = { status: Number(status), location: String(location), body: String(body) };
      return { outcome, answer };
    }
    case 'reused':
      return { outcome };
    case 'in-flight':
      return { outcome, leaseLeftMs: Number(rest[0]) };
    case 'cold':
      return parseCold(rest);
  }
  throw new Error(`claim.lua replied ${outcome}`);
}

/** What read.lua replied, as its contract names it. */
function parseReadReply(reply: unknown): PendingRead {
  const [outcome, ...rest] = reply as [string, ...string[]];
  switch (outcome) {
    case 'pending': {
      const [partner, shown, acceptedAt] = rest;
      const partnerId = partner as PartnerId;
      return { outcome, partnerId, shown: shown!, acceptedAt: new Date(Number(acceptedAt)) };
    }
    case 'unknown':
      return { outcome };
    case 'cold':
      return parseCold(rest);
  }
  throw new Error(`read.lua replied ${outcome}`);
}

/** What note-loss.lua replied, as its contract names it. */
function parseNoteReply(reply: unknown): BucketMarker {
  const [epoch, barrier] = reply as [BucketEpoch, string];
  return { epoch, ...(barrier ? { barrier } : {}) };
}

function parseCold([epoch, barrier]: readonly (string | number)[]): Cold {
  return {
    outcome: 'cold',
    ...(epoch ? { epoch: String(epoch) as BucketEpoch } : {}),
    ...(barrier ? { barrier: String(barrier) } : {}),
  };
}
