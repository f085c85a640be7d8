import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createTestRedis } from '@triplock/testing';
import { Redis } from 'ioredis';
import { inspectRedisClaims } from './redis-inspector.ts';

const ours = ['{triplock:7}:claim:one', '{triplock:7}:marker'];

/** A Redis of the test's own that holds our keys, and its claims as seen from outside. */
async function aRedis(test: TestContext) {
  const { url } = await createTestRedis(test);
  const redis = new Redis(url);
  const claims = inspectRedisClaims({ url, namespace: 'triplock' });
  test.after(async () => {
    redis.disconnect();
    await claims.close();
  });
  for (const key of ours) await redis.hset(key, 'field', 'value');
  return { redis, claims };
}

test('a Redis of our own forgets everything by FLUSHALL', async (t) => {
  const { redis, claims } = await aRedis(t);
  assert.deepEqual(await claims.forget(), { command: 'FLUSHALL in Redis', keys: 2 });
  assert.equal(await redis.dbsize(), 0);
});

test("in a Redis that others use too, only our keys go, and nobody's else", async (t) => {
  const { redis, claims } = await aRedis(t);
  await redis.set('somebody:else', 'precious');
  const { command, keys } = await claims.forget();
  assert.match(command, /UNLINK/);
  assert.equal(keys, 2);
  assert.deepEqual(await redis.keys('*'), ['somebody:else']);
});

test('another database of the server counts as somebody else', async (t) => {
  const { redis, claims } = await aRedis(t);
  await redis.call('SELECT', '3');
  await redis.set('somebody:else', 'precious');
  await redis.call('SELECT', '0');
  await claims.forget();
  assert.equal(await redis.dbsize(), 0);
  await redis.call('SELECT', '3');
  assert.equal(await redis.get('somebody:else'), 'precious');
});
