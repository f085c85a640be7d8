import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type Fingerprint, type PartnerId, type TxnId } from '@triplock/payments';
import type { Redis } from 'ioredis';
import {
  claimTimes,
  ClaimsUnavailableError,
  type BucketEpoch,
  type BucketMarker,
  type ClaimOutcome,
  type ClaimOwner,
  type Claims,
  type ClaimsOptions,
  type ClaimWalk,
  type CompletedClaim,
  type Cold,
  type OwnerToken,
  type PendingRead,
} from '../claims.ts';
import { releaseLate } from '../late-releases.ts';
import { connectRedis, type RunScript } from './redis-connection.ts';

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
  // A marker that is gone, whatever it was: the records of the bucket stay and still count.
  markBucketCold: { lua: "return redis.call('DEL', KEYS[1])", numberOfKeys: 1 },
} as const;
export type ScriptName = keyof typeof scripts;

/**
 * Guard 1 on Redis 6.2 or newer: one hash per claim and one warm marker per bucket, and one Lua
 * script per method. The server may be away: claims then reject until it is back.
 *
 * @throws RedisPolicyError when the server is there and may evict claims.
 */
export async function openRedisClaims(options: RedisClaimsOptions): Promise<Claims> {
  const { namespace, leaseMs, lifeMs, ...server } = { ...claimTimes, ...options };
  const { logger } = server;
  const { markerOf, recordOf, keysOf } = keyNames(namespace);
  const markCold = (run: RunScript<ScriptName>, bucket: number) =>
    run('markBucketCold', { keys: [markerOf(bucket)], values: [] });
  const onDoubt = async (run: RunScript<ScriptName>) => {
    await Promise.all(Array.from({ length: bucketCount }, (_, bucket) => markCold(run, bucket)));
  };
  const redis = await connectRedis({ ...server, scripts, onDoubt });
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
      const { history, nowMs } = redis.server();
      const lasting = [leaseMs, lifeMs, ledgerCheckedIn ?? ''];
      const values = [history, token, ...request, ...lasting, nowMs];
      try {
        const reply = await redis.run('claimRecord', { keys: keysOf(txnId), values });
        return parseClaimReply(reply, token);
      } catch (error) {
        late.add({ txnId, token });
        throw error;
      }
    },
    async complete({ txnId, token }, { status, location, body }) {
      const values = [token, status, location, body, lifeMs];
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
      const { history, nowMs } = redis.server();
      const values = [history, lifeMs, nowMs];
      return parseReadReply(await redis.run('readRecord', { keys: keysOf(txnId), values }));
    },
    async noteLoss(bucket) {
      const { history, nowMs } = redis.server();
      const values = [history, randomUUID(), nowMs];
      return parseNoteReply(await redis.run('noteLoss', { keys: [markerOf(bucket)], values }));
    },
    async setBarrier({ bucket, epoch, barrier, warm }) {
      const values = [epoch, barrier, warm ? '1' : '0'];
      await redis.run('setBarrier', { keys: [markerOf(bucket)], values });
    },
    async markCold(bucket) {
      await markCold(redis.run, bucket);
    },
    ping: () => redis.ping(),
    close: async () => {
      await late.close();
      await redis.close();
    },
  };
}

/**
 * One hash tag for the record and its bucket's marker: scripts touch both, and Redis Cluster runs a
 * script only when all its keys are in one slot.
 */
function keyNames(namespace: string) {
  const bucketFor = (txnId: TxnId) => bucketOf(txnId, bucketCount);
  const markerOf = (bucket: number) => `{${namespace}:${bucket}}:marker`;
  const recordOf = (txnId: TxnId) => `{${namespace}:${bucketFor(txnId)}}:claim:${txnId}`;
  const keysOf = (txnId: TxnId) => [markerOf(bucketFor(txnId)), recordOf(txnId)];
  return { markerOf, recordOf, keysOf };
}

const walkedFields = ['state', 'partner', 'fingerprint', 'accepted_at'] as const;

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
  const { recordOf } = keyNames(namespace);
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
        const [state, partnerId, fingerprint, acceptedAt] = record;
        if (state !== 'completed') return [];
        return [
          {
            txnId: keys[at]!.replace(keyStart, '') as TxnId,
            partnerId: partnerId as PartnerId,
            fingerprint: fingerprint as Fingerprint,
            acceptedAt: new Date(Number(acceptedAt)),
          },
        ];
      });
      if (redis.server().history !== history)
        throw new ClaimsUnavailableError('Redis was replaced');
      return next === '0' ? { claims } : { claims, next: `${next}@${history}` };
    },
    shown: (txnId) =>
      redis.read(async (server) => (await server.hget(recordOf(txnId), 'shown')) ?? undefined),
    close: () => redis.close(),
  };
}

async function requireAllClaims(server: Redis): Promise<void> {
  if (!/^cluster_enabled:1/m.test(await server.info('cluster'))) return;
  throw new ClaimsUnavailableError('a node of a Redis Cluster has only some of the claims');
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
