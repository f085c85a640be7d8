import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import type { Redis } from 'ioredis';
import type { Forgotten, ClaimsInspector } from '../claims-inspector.ts';
import { redisPackage } from './package.ts';

type Keyspace = { redis: Redis; namespace: string };

const answerTimeoutMs = 5_000;

// MEMORY USAGE leaves out a key's entry among those that expire: 24 bytes, and 8 of its table.
const expiryBytes = 32;

/** Claims in Redis, or the answers that Redis keeps before PostgreSQL. */
export function inspectRedisClaims({
  url,
  namespace,
}: {
  url: string;
  namespace: string;
}): ClaimsInspector {
  const { Redis } = redisPackage();
  const redis = new Redis(url, {
    lazyConnect: true,
    maxRetriesPerRequest: 3,
    // A server that stands still is an error to tell, and not a command that hangs.
    connectTimeout: answerTimeoutMs,
    commandTimeout: answerTimeoutMs,
  });
  // Commands reject by themselves; without a listener a lost connection would end the process.
  redis.on('error', () => undefined);
  const keyOf = (kind: 'claim' | 'shown' | 'answer', txnId: string) =>
    `{${namespace}:${bucketOf(txnId as TxnId, bucketCount)}}:${kind}:${txnId}`;
  return {
    async look(txnId) {
      const key = keyOf('claim', txnId);
      // Fields of a record (see claim.lua), by what the auditor's user may ask.
      const fields = ['f', 's', 'p', 'a'] as const;
      const [record, leftMs] = await Promise.all([redis.hmget(key, ...fields), redis.pttl(key)]);
      const [fingerprint, state, partner, acceptedAt] = record;
      if (fingerprint == null) return undefined;
      const claim = { state: state ?? '', partner: partner ?? '', fingerprint, leftMs };
      return { ...claim, acceptedAt: new Date(Number(acceptedAt)) };
    },
    async expire(txnId) {
      const keys = (['claim', 'shown', 'answer'] as const).map((kind) => keyOf(kind, txnId));
      const expired = await Promise.all(keys.map((key) => redis.pexpire(key, 0)));
      return expired.includes(1);
    },
    forget: () => forgetEverything({ redis, namespace }),
    async count() {
      // What reads show leaves by itself within a minute, and is counted nowhere.
      const { ours } = await ourKeys({ redis, namespace });
      return ours.filter((key) => !key.includes(':shown:')).length;
    },
    async ageMarkers(ms) {
      const { ours } = await ourKeys({ redis, namespace });
      const markers = ours.filter((key) => key.endsWith(':marker'));
      for (const marker of markers) await redis.hincrby(marker, 'since', -ms);
      return markers.length;
    },
    /** The memory of a key with its value and its expiry, of some. */
    async bytesPerClaim() {
      const { ours } = await ourKeys({ redis, namespace });
      const used = async (kind: string) => {
        const some = ours.filter((key) => key.includes(kind)).slice(0, 500);
        const sizes = await Promise.all(some.map((key) => redis.memory('USAGE', key)));
        const sum = sizes.reduce<number>((bytes, size) => bytes + (size ?? 0) + expiryBytes, 0);
        return sum / some.length;
      };
      return { claim: await used(':claim:'), shown: await used(':shown:') };
    },
    close: () => Promise.resolve(redis.disconnect()),
  };
}

/**
 * FLUSHALL. On a server that holds somebody else's keys too, which a given REDIS_URL may well do,
 * only our own go: the gateway sees the same loss, and nobody else any.
 */
async function forgetEverything({ redis, namespace }: Keyspace): Promise<Forgotten> {
  const { ours, foreign } = await ourKeys({ redis, namespace });
  if (!foreign) {
    await redis.flushall();
    return { command: 'FLUSHALL in Redis', keys: ours.length };
  }
  // All at once: claims that go before their markers would be a loss that nobody sees.
  const unlinking = redis.multi();
  for (let from = 0; from < ours.length; from += 1_000) {
    unlinking.unlink(...ours.slice(from, from + 1_000));
  }
  await unlinking.exec();
  return { command: 'UNLINK of our keys in Redis (it holds others too)', keys: ours.length };
}

async function ourKeys({ redis, namespace }: Keyspace): Promise<{
  ours: string[];
  foreign: boolean;
}> {
  const ours: string[] = [];
  let foreign = await hasOtherDatabases(redis);
  for await (const keys of redis.scanStream({ count: 1_000 })) {
    for (const key of keys as string[]) {
      if (key.startsWith(`{${namespace}:`)) ours.push(key);
      else foreign = true;
    }
  }
  return { ours, foreign };
}

/** INFO keyspace has a line for each database that is not empty. */
async function hasOtherDatabases(redis: Redis): Promise<boolean> {
  const used = (await redis.info('keyspace')).match(/^db\d+:/gm) ?? [];
  return used.some((line) => line !== `db${redis.options.db ?? 0}:`);
}
