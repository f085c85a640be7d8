import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import type { Redis } from 'ioredis';

/** Makes a claim's record older: its lease and its life end that much sooner. */
export async function ageRecord(
  redis: Redis,
  { namespace, txnId, ms }: { namespace: string; txnId: TxnId; ms: number },
): Promise<void> {
  const key = `{${namespace}:${bucketOf(txnId, bucketCount)}}:claim:${txnId}`;
  await redis.hincrby(key, 'lease_until', -ms);
  const left = (await redis.pttl(key)) - ms;
  if (left > 0) await redis.pexpire(key, left);
  else await redis.del(key);
}
