import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { usualNames as names } from '@triplock/infra';
import { createTestRedis } from '@triplock/testing';
import { Redis } from 'ioredis';
import { forgetEverything } from './forget-everything.ts';

const ours = ['{triplock:7}:claim:one', '{triplock:7}:memory'];

/** A Redis of the test's own that holds our keys. */
async function aRedis(test: TestContext): Promise<Redis> {
  const { url } = await createTestRedis(test);
  const redis = new Redis(url);
  test.after(() => redis.disconnect());
  for (const key of ours) await redis.hset(key, 'field', 'value');
  return redis;
}

test('a Redis of our own forgets everything by FLUSHALL', async (t) => {
  const redis = await aRedis(t);
  assert.deepEqual(await forgetEverything({ redis, names }), { command: 'FLUSHALL', keys: 2 });
  assert.equal(await redis.dbsize(), 0);
});

test("in a Redis that others use too, only our keys go, and nobody's else", async (t) => {
  const redis = await aRedis(t);
  await redis.set('somebody:else', 'precious');
  const { command, keys } = await forgetEverything({ redis, names });
  assert.match(command, /UNLINK/);
  assert.equal(keys, 2);
  assert.deepEqual(await redis.keys('*'), ['somebody:else']);
});

test('another database of the server counts as somebody else', async (t) => {
  const redis = await aRedis(t);
  await redis.call('SELECT', '3');
  await redis.set('somebody:else', 'precious');
  await redis.call('SELECT', '0');
  await forgetEverything({ redis, names });
  assert.equal(await redis.dbsize(), 0);
  await redis.call('SELECT', '3');
  assert.equal(await redis.get('somebody:else'), 'precious');
});
