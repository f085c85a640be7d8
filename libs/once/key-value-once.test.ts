import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestKeyspace, createTestRedis, createTestRelay } from '@triplock/testing';
import { Redis } from 'ioredis';
import { describeOnce } from './once.conformance.ts';
import { openRedisOnce } from './redis/redis-once.ts';
import { answerTimeoutMs, aStep, hourMs } from './test/once-under-test.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

async function openRedis(t: TestContext) {
  const { url, namespace, forget } = await createTestKeyspace(t);
  const relay = await createTestRelay(t, url);
  const open = async (way: string) => {
    const store = await openRedisOnce({ url: way, namespace, logger, answerTimeoutMs });
    t.after(() => store.close());
    return store;
  };
  const redis = new Redis(url);
  t.after(() => redis.quit());
  return {
    store: await open(relay.url),
    another: () => open(url),
    async age({ scope, key }: { scope: string; key: string }, ms: number) {
      const record = `{${namespace}:once:${scope.length}:${scope}:${key}}`;
      await redis.hincrby(record, 'lease_until', -ms);
      const left = (await redis.pttl(record)) - ms;
      if (left > 0) await redis.pexpire(record, left);
      else await redis.del(record);
    },
    relay,
    forget,
    /** As a clock of the server that was set back leaves it. */
    async fenceAhead({ scope, key }: { scope: string; key: string }, ms: number) {
      await redis.hincrby(
        `{${namespace}:once:${scope.length}:${scope}:${key}}`,
        'fence',
        ms * 1_000,
      );
    },
  };
}

describeOnce('redis', openRedis);

test('what redis forgot is started anew, with a larger fence than the one before', async (t) => {
  const { store, forget } = await openRedis(t);
  const step = aStep();
  const before = await store.start(step);
  assert.ok(before.outcome === 'started');
  await forget();
  const after = await store.start(step);
  assert.ok(after.outcome === 'started' && after.fence > before.fence);
  const owner = { ...step, token: before.token };
  assert.equal(await store.finish(owner, { state: 'completed', result: '1' }), 'lost');
});

test('a server whose clock was set back gives a larger fence all the same, while it knows the key', async (t) => {
  const { store, fenceAhead } = await openRedis(t);
  const step = aStep();
  const before = await store.start(step);
  assert.ok(before.outcome === 'started');
  await store.finish({ ...step, token: before.token }, { state: 'released' });
  await fenceAhead(step, hourMs);
  const after = await store.start(step);
  assert.ok(after.outcome === 'started');
  assert.ok(after.fence > before.fence + BigInt(hourMs * 1_000), `${after.fence}`);
});

test('starts that come together are one call, and each is decided for itself', async (t) => {
  const server = await createTestRedis(t);
  const store = await openRedisOnce({ url: server.url, namespace: 'own', logger });
  t.after(() => store.close());
  const broken = aStep();
  const record = `{own:once:${broken.scope.length}:${broken.scope}:${broken.key}}`;
  await server.command('SET', record, 'is no hash');
  const [one, other] = [aStep(), aStep()];
  // The server knows the script from then on.
  await store.start(one);
  const steps = [other, broken, other, { ...one, fingerprint: 'another request' }, aStep(), one];
  await Promise.allSettled(steps.map(store.start));
  await server.command('CONFIG', 'RESETSTAT');
  const again = [aStep(), ...steps, aStep()];
  const started = await Promise.allSettled(again.map(store.start));
  assert.deepEqual(
    started.map((each) => (each.status === 'fulfilled' ? each.value.outcome : 'failed')),
    [
      'started',
      ...['in-flight', 'failed', 'in-flight', 'reused', 'in-flight', 'in-flight'],
      'started',
    ],
  );
  const stats = String(await server.command('INFO', 'commandstats'));
  assert.match(stats, /^cmdstat_evalsha:calls=1,/m);
});
