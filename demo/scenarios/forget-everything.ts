import type { Redis } from 'ioredis';
import type { System } from '../system.ts';

/** What was done to Redis, and how many keys it cost. */
export type Forgotten = { command: string; keys: number };

/**
 * FLUSHALL. On a server that holds somebody else's keys too, which a given REDIS_URL may well do,
 * only our own go: the gateway sees the same loss, and nobody else any.
 */
export async function forgetEverything({
  redis,
  names,
}: Pick<System, 'redis' | 'names'>): Promise<Forgotten> {
  const ours: string[] = [];
  let foreign = await hasOtherDatabases(redis);
  for await (const keys of redis.scanStream({ count: 1_000 })) {
    for (const key of keys as string[]) {
      if (key.startsWith(`{${names.claims}:`)) ours.push(key);
      else foreign = true;
    }
  }
  if (!foreign) {
    await redis.flushall();
    return { command: 'FLUSHALL', keys: ours.length };
  }
  for (let from = 0; from < ours.length; from += 1_000) {
    await redis.unlink(...ours.slice(from, from + 1_000));
  }
  return { command: 'UNLINK of our keys (it holds others too)', keys: ours.length };
}

/** INFO keyspace has a line for each database that is not empty. */
async function hasOtherDatabases(redis: Redis): Promise<boolean> {
  const used = (await redis.info('keyspace')).match(/^db\d+:/gm) ?? [];
  return used.some((line) => line !== `db${redis.options.db ?? 0}:`);
}
