import { createLogger } from '@triplock/runtime';
import { testEndpoints, testNamespace } from '@triplock/testing';
import { Redis } from 'ioredis';
import { describeClaims } from '../claims.conformance.ts';
import { openRedisClaims } from './redis-claims.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

describeClaims('redis', async (test, times) => {
  const { redis: url } = await testEndpoints();
  const namespace = testNamespace('claims');
  const claims = await openRedisClaims({ url, namespace, logger, ...times });
  const outside = new Redis(url);
  const forget = async () => {
    const keys = await outside.keys(`{${namespace}:*`);
    if (keys.length > 0) await outside.del(...keys);
  };
  test.after(async () => {
    await forget();
    await outside.quit();
    await claims.close();
  });
  return { claims, forget };
});
