import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import { once } from '@triplock/once';
import { describeOnce } from '@triplock/once/conformance';
import { aStep, counting, createOnceDatabase, hourMs, openWay } from '@triplock/once/test';
import { createLogger } from '@triplock/runtime';
import { createTestKeyspace, createTestRelay, eventually } from '@triplock/testing';
import { Redis } from 'ioredis';
import { openHybridOnce } from './hybrid-once.ts';

const { ageKey, databaseUrl } = await createOnceDatabase({ after });

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

async function openHybrid(t: TestContext) {
  const { url, namespace, forget } = await createTestKeyspace(t);
  const relay = await createTestRelay(t, databaseUrl);
  const open = async (way: string) => {
    const database = openWay(t, way);
    const store = openHybridOnce({ database, cacheUrl: url, namespace, logger });
    t.after(() => store.close());
    return store;
  };
  const redis = new Redis(url);
  t.after(() => redis.quit());
  const cachedAt = ({ scope, key }: { scope: string; key: string }) =>
    `{${namespace}:once:${scope.length}:${scope}:${key}}`;
  return {
    store: await open(relay.url),
    another: () => open(databaseUrl),
    async age(step: { scope: string; key: string }, ms: number) {
      await ageKey(step, ms);
      const left = (await redis.pttl(cachedAt(step))) - ms;
      if (left > 0) await redis.pexpire(cachedAt(step), left);
      else await redis.del(cachedAt(step));
    },
    relay,
    forget,
    leftMs: (step: { scope: string; key: string }) => redis.pttl(cachedAt(step)),
  };
}

describeOnce('redis before postgres', openHybrid);

test('repeats of a result need no postgres, and losing the cache changes none', async (t) => {
  const { store, age, relay, forget, leftMs } = await openHybrid(t);
  const step = aStep();
  const { effect, runs } = counting();
  await once(store, step, effect);
  const repeat = async () => assert.equal((await once(store, step, effect)).outcome, 'replayed');
  const cache = () => eventually(async () => (await repeat(), (await leftMs(step)) > 0));
  await cache();
  await forget();
  await repeat();
  await age(step, 23 * hourMs);
  await cache();
  assert.ok((await leftMs(step)) <= hourMs, 'a result is cached no longer than its key lives');
  await relay.cut();
  await repeat();
  await assert.rejects(once(store, { ...step, fingerprint: 'another request' }, effect));
  assert.equal(runs(), 1);
});
