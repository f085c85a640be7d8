import { after, type TestContext } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import { createTestDatabase, createTestKeyspace, createTestRelay } from '@triplock/testing';
import { Redis } from 'ioredis';
import { openPostgresWalk } from '@triplock/claims-postgres';
import { ageRow, bytesOfRow, forgetRows } from '@triplock/claims-postgres/test';
import { openHybridClaims } from '../hybrid-claims.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
// One database for a whole file: every test has a namespace of its own.
const database = await createTestDatabase({ after });
const owner = database.open();

/**
 * Hybrid claims whose two stores are reached by ways of their own, and hands to change both with.
 */
export async function openHybrid(
  t: TestContext,
  times: { leaseMs?: number; lifeMs?: number; shownMs?: number; answerTimeoutMs?: number } = {},
) {
  const keys = await createTestKeyspace(t);
  const { namespace } = keys;
  const url = database.url('triplock_claims');
  const [relay, cache] = [await createTestRelay(t, url), await createTestRelay(t, keys.url)];
  const redis = new Redis(keys.url);
  t.after(() => redis.quit());
  const open = async (way: string, cacheUrl: string) => {
    const named = { namespace, applicationName: 'test', logger };
    const claims = await openHybridClaims({ url: way, cacheUrl, ...named, ...times });
    t.after(() => claims.close());
    return claims;
  };
  const answerOf = (txnId: TxnId) =>
    `{${namespace}:${bucketOf(txnId, bucketCount)}}:answer:${txnId}`;
  return {
    claims: await open(relay.url, cache.url),
    another: () => open(url, keys.url),
    async openWalk() {
      const named = { namespace, applicationName: 'test', logger };
      const walk = openPostgresWalk({ url: relay.url, ...named, ...times });
      t.after(() => walk.close());
      return walk;
    },
    forget: () => forgetRows(owner, namespace),
    async age(txnId: TxnId, ms: number) {
      await ageRow(owner, { namespace, txnId, ms });
      const left = (await redis.pttl(answerOf(txnId))) - ms;
      if (left > 0) await redis.pexpire(answerOf(txnId), left);
      else await redis.del(answerOf(txnId));
    },
    async bytes(txnId: TxnId) {
      const cached = await redis.memory('USAGE', answerOf(txnId));
      return (cached ?? 0) + (await bytesOfRow(owner, { namespace, txnId }));
    },
    relay,
    cache,
    redis,
    answerOf,
    dropCache: () => keys.forget(),
    ageInPostgres: (txnId: TxnId, ms: number) => ageRow(owner, { namespace, txnId, ms }),
  };
}
