import { createLogger } from '@triplock/runtime';
import { createTestKeyspace, createTestRelay } from '@triplock/testing';
import { Redis } from 'ioredis';
import { describeClaims } from '../claims.conformance.ts';
import { ageRecord } from './age-record.testing.ts';
import { openRedisClaims } from './redis-claims.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

describeClaims('redis', async (test, times) => {
  const { url, namespace, forget } = await createTestKeyspace(test);
  const relay = await createTestRelay(test, url);
  const open = async (way: string) => {
    const claims = await openRedisClaims({ url: way, namespace, logger, ...times });
    test.after(() => claims.close());
    return claims;
  };
  const redis = new Redis(url);
  test.after(() => redis.quit());
  return {
    claims: await open(relay.url),
    another: () => open(url),
    forget,
    age: (txnId, ms) => ageRecord(redis, { namespace, txnId, ms }),
    relay,
  };
});
