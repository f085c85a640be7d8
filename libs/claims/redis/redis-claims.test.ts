import { createLogger } from '@triplock/runtime';
import { createTestKeyspace } from '@triplock/testing';
import { describeClaims } from '../claims.conformance.ts';
import { openRedisClaims } from './redis-claims.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

describeClaims('redis', async (test, times) => {
  const { url, namespace, forget } = await createTestKeyspace(test);
  const claims = await openRedisClaims({ url, namespace, logger, ...times });
  test.after(() => claims.close());
  return { claims, forget };
});
