import type { Redis } from 'ioredis';

/** What a fresh connection leads to, as far as claims care. */
export type RedisServer = {
  /** Names the server process: another one after every restart, restore and failover. */
  runId: string;
  /** What the server drops when memory is full; `undefined` when it does not say. */
  maxmemoryPolicy: string | undefined;
};

/**
 * Asks a server who it is and what it evicts. Both come from one INFO, because managed services
 * refuse CONFIG (https://redis.io/docs/latest/commands/info/).
 */
export async function inspectServer(redis: Redis): Promise<RedisServer> {
  const info = await redis.info();
  const runId = field(info, 'run_id');
  if (runId === undefined) throw new Error('Redis shows no run_id in INFO');
  return { runId, maxmemoryPolicy: field(info, 'maxmemory_policy') };
}

function field(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
}
