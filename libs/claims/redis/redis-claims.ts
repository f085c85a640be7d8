import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type PartnerId, type TransactionKind, type TxnId } from '@triplock/payments';
import {
  bucketLimits,
  claimTimes,
  partnerLimits,
  type BucketEpoch,
  type BucketMarker,
  type ClaimOutcome,
  type ClaimOwner,
  type ClaimRequest,
  type Claims,
  type ClaimsOptions,
  type Cold,
  type FirstClaim,
  type OwnerToken,
  type PartnerLimits,
  type PendingRead,
  type ShownClaim,
} from '../claims.ts';
import { releaseLate } from '../late-releases.ts';
import {
  connectRedis,
  takeEach,
  type RedisConnection,
  type RedisScripts,
  type RunScript,
  type Script,
} from './redis-connection.ts';

/** Where claims live. `namespace` begins every key, so that several systems can share a server. */
export type RedisClaimsOptions = ClaimsOptions & { url: string } & Partial<PartnerLimits>;

const lua = (file: string) => readFileSync(new URL(file, import.meta.url), 'utf8');
const marker = lua('warm-marker.lua');
const held = lua('held.lua');

/** Functions of a file, then a step: alone, and as {@link takeEach} takes it. */
function step(functions: string, body: string, numberOfKeys: number): Script {
  return { lua: functions + body, numberOfKeys, each: takeEach(functions, body) };
}

/**
 * The atomic steps by the name they are called by. Each file opens with its contract. Read once at
 * import, so that a missing file fails the boot and not a payment.
 */
export const scripts = {
  claimRecord: step(marker + held, lua('claim.lua'), 4),
  completeRecord: step('', lua('complete.lua'), 1),
  releaseRecord: step('', lua('release.lua'), 1),
  readRecord: step(marker, lua('read.lua'), 3),
  noteLoss: { lua: marker + lua('note-loss.lua'), numberOfKeys: 1 },
  setBarrier: { lua: lua('set-barrier.lua'), numberOfKeys: 1 },
  renewShown: step(marker + held, 'return renew(KEYS, ARGV, server_now())', 2),
  // A marker that is gone, whatever it was: the records of the bucket stay and still count.
  markBucketCold: { lua: "return redis.call('DEL', KEYS[1])", numberOfKeys: 1 },
} satisfies RedisScripts;
export type ScriptName = keyof typeof scripts;

/**
 * Guard 1 on Redis 6.2 or newer: one hash per claim, for some seconds with what a read shows beside
 * it, one warm marker per bucket, and one Lua script per method. The server may be away: claims
 * then reject until it is back.
 *
 * @throws RedisPolicyError when the server is there and may evict claims.
 */
export async function openRedisClaims(options: RedisClaimsOptions): Promise<Claims> {
  const { namespace, leaseMs, lifeMs, shownMs, ...server } = { ...claimTimes, ...options };
  const limits = bucketLimits({ ...partnerLimits, ...options });
  const { logger } = server;
  const { markerOf, recordOf, shownOf, heldOf, keysOf } = keyNames(namespace);
  const markCold = (run: RunScript<ScriptName>, bucket: number) =>
    run('markBucketCold', { keys: [markerOf(bucket)], values: [] });
  const onDoubt = async (run: RunScript<ScriptName>) => {
    await Promise.all(Array.from({ length: bucketCount }, (_, bucket) => markCold(run, bucket)));
  };
  const redis = await connectRedis({ ...server, scripts, onDoubt });
  const known = () => {
    const { history, nowMs } = redis.server();
    return [history, nowMs];
  };
  const lasting = [leaseMs, lifeMs, shownMs, limits.claims, limits.shown];
  const claimRecord = redis.together('claimRecord', () => [...known(), ...lasting]);
  const completeRecord = redis.together('completeRecord', () => [lifeMs]);
  const releaseRecord = redis.together('releaseRecord', () => []);
  const readRecord = redis.together('readRecord', () => [...known(), lifeMs]);
  const renewShown = redis.together('renewShown', () => [lifeMs, shownMs, limits.shown]);
  const release = async ({ txnId, token }: ClaimOwner) => {
    const released = await releaseRecord({ keys: [recordOf(txnId)], values: [token] });
    return released === 1 ? 'released' : 'lost';
  };
  const late = releaseLate({ release, leaseMs, logger });

  return {
    async claim(request) {
      const { txnId } = request;
      const token = randomUUID() as OwnerToken;
      // Throws while the server is away: then nothing is sent that would have to be released.
      redis.server();
      try {
        const keys = [...keysOf(txnId), heldOf(request)];
        const reply = await claimRecord({ keys, values: [token, ...toldOf(request)] });
        return parseClaimReply(reply, token);
      } catch (error) {
        late.add({ txnId, token });
        throw error;
      }
    },
    async complete({ txnId, token }) {
      const completed = await completeRecord({ keys: [recordOf(txnId)], values: [token] });
      return completed === 1 ? 'completed' : 'lost';
    },
    release: (owner) =>
      release(owner).catch((error: unknown) => {
        late.add(owner);
        throw error;
      }),
    async read(txnId) {
      return parseReadReply(await readRecord({ keys: keysOf(txnId), values: [] }));
    },
    async renewShown(claims) {
      await inChunks(claims, (claim) =>
        renewShown({ keys: [shownOf(claim.txnId), heldOf(claim)], values: [] }),
      );
    },
    ...markerSteps(redis, markerOf),
    memory: () => redis.memory(),
    ping: () => redis.ping(),
    close: async () => {
      await late.close();
      await redis.close();
    },
  };
}

type Connection = RedisConnection<typeof scripts>;

/** What is done to a bucket's marker. */
function markerSteps(
  redis: Connection,
  markerOf: (bucket: number) => string,
): Pick<Claims, 'noteLoss' | 'setBarrier' | 'markCold'> {
  return {
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
      await redis.run('markBucketCold', { keys: [markerOf(bucket)], values: [] });
    },
  };
}

/** What claim.lua is told of a request, in the order of its contract. */
function toldOf(request: ClaimRequest): (string | number)[] {
  const { txnId, partnerId, kind, fingerprint, acceptedAt, responseVersion, recordKey } = request;
  const key = recordKey === txnId ? '' : recordKey;
  const { shown, ledgerCheckedIn = '' } = request;
  const written = [fingerprint, partnerId, kind, acceptedAt.getTime(), responseVersion, key, shown];
  return [...written, ledgerCheckedIn];
}

/**
 * One hash tag for what is there of an id and its bucket's marker: scripts touch them together, and
 * Redis Cluster runs a script only when all its keys are in one slot.
 */
function keyNames(namespace: string) {
  const bucketFor = (txnId: TxnId) => bucketOf(txnId, bucketCount);
  const markerOf = (bucket: number) => `{${namespace}:${bucket}}:marker`;
  const recordOf = (txnId: TxnId) => `{${namespace}:${bucketFor(txnId)}}:claim:${txnId}`;
  const shownOf = (txnId: TxnId) => `{${namespace}:${bucketFor(txnId)}}:shown:${txnId}`;
  const keysOf = (txnId: TxnId) => [markerOf(bucketFor(txnId)), recordOf(txnId), shownOf(txnId)];
  const heldOf = ({ txnId, partnerId }: ShownClaim) =>
    `{${namespace}:${bucketFor(txnId)}}:held:${partnerId}`;
  return { markerOf, recordOf, shownOf, heldOf, keysOf };
}

// One pipeline that a server answers in a few milliseconds, between those of requests.
const renewedAtOnce = 500;

async function inChunks(
  claims: readonly ShownClaim[],
  renew: (claim: ShownClaim) => Promise<unknown>,
): Promise<void> {
  for (let done = 0; done < claims.length; done += renewedAtOnce) {
    await Promise.all(claims.slice(done, done + renewedAtOnce).map(renew));
  }
}

/** What claim.lua replied, as its contract names it. */
function parseClaimReply(reply: unknown, token: OwnerToken): ClaimOutcome {
  const [outcome, ...rest] = reply as [string, ...(string | number)[]];
  switch (outcome) {
    case 'claimed':
      return { outcome, token, ...parseFirst(rest) };
    case 'completed':
      return { outcome, ...parseFirst(rest) };
    case 'reused':
      return { outcome };
    case 'in-flight':
      return { outcome, leaseLeftMs: Number(rest[0]) };
    case 'over-limit':
      return { outcome, retryAfterMs: Number(rest[0]) };
    case 'cold':
      return parseCold(rest);
  }
  throw new Error(`claim.lua replied ${outcome}`);
}

function parseFirst([acceptedAt, version]: readonly (string | number)[]): FirstClaim {
  return { acceptedAt: new Date(Number(acceptedAt)), responseVersion: Number(version) };
}

/** What read.lua replied, as its contract names it. */
function parseReadReply(reply: unknown): PendingRead {
  const [outcome, ...rest] = reply as [string, ...string[]];
  switch (outcome) {
    case 'pending': {
      const [partner, kind, acceptedAt, leaseLeftMs, shown] = rest;
      const whose = { partnerId: partner as PartnerId, kind: kind as TransactionKind };
      const seen = { ...whose, acceptedAt: new Date(Number(acceptedAt)) };
      return {
        outcome,
        ...seen,
        ...(leaseLeftMs !== '' && { underWay: { leaseLeftMs: Number(leaseLeftMs) } }),
        ...(shown !== undefined && { shown }),
      };
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
