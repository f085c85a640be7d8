import { Redis } from 'ioredis';
import { testPart } from './endpoints.ts';
import type { Cleanup } from './test-database.ts';
import { testNamespace } from './test-namespace.ts';

/** The keys of one test in the shared Redis. */
export type TestKeyspace = {
  url: string;
  namespace: string;
  /** Deletes them all at once, which is what FLUSHALL does to an own server. */
  forget(): Promise<void>;
};

/**
 * A namespace of one test's own, for keys that begin with `{<namespace>:`; empty after the test.
 */
export async function createTestKeyspace(test: Cleanup): Promise<TestKeyspace> {
  const url = await testPart('redis');
  const namespace = testNamespace('claims');
  const redis = new Redis(url);
  const forget = async () => {
    const keys = await redis.keys(`{${namespace}:*`);
    if (keys.length > 0) await redis.del(...keys);
  };
  test.after(async () => {
    await forget();
    await redis.quit();
  });
  return { url, namespace, forget };
}
