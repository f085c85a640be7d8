import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import { createTestKeyspace, createTestRelay, testNamespace, testPart } from '@triplock/testing';
import { Redis } from 'ioredis';
import { describeClaims } from '../claims.conformance.ts';
import { openRedisClaims, scripts, type ScriptName } from './redis-claims.ts';

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

/** Makes a claim's record older: its lease and its life end that much sooner. */
async function ageRecord(
  redis: Redis,
  { namespace, txnId, ms }: { namespace: string; txnId: TxnId; ms: number },
): Promise<void> {
  const key = `{${namespace}:${bucketOf(txnId, bucketCount)}}:claim:${txnId}`;
  await redis.hincrby(key, 'lease_until', -ms);
  const left = (await redis.pttl(key)) - ms;
  if (left > 0) await redis.pexpire(key, left);
  else await redis.del(key);
}

type Scripted = Redis & Record<ScriptName, (...args: (string | number)[]) => Promise<unknown>>;

/** A client for the bare scripts and the two keys of one claim, deleted after the test. */
async function bareScripts(test: TestContext) {
  const url = await testPart('redis');
  const redis = new Redis(url, { scripts: { ...scripts } }) as Scripted;
  const tag = `{${testNamespace('scripts')}:0}`;
  const [marker, record] = [`${tag}:marker`, `${tag}:claim:some-id`];
  test.after(async () => {
    await redis.del(marker, record);
    await redis.quit();
  });
  assert.deepEqual(await redis.noteLoss(marker, 'run', 'epoch'), ['epoch', '']);
  await redis.setBarrier(marker, 'epoch', '{}', '1');
  const claim = (token: string, times: { leaseMs: number; lifeMs: number }) =>
    redis.claimRecord(
      ...[marker, record, 'run', token, 'print', 'acme', 1_000, '{}'],
      ...[times.leaseMs, times.lifeMs, ''],
    );
  return { redis, marker, record, claim };
}

describe('the scripts', () => {
  it('a claim that is sent twice over is still its own', async (t) => {
    const { claim } = await bareScripts(t);
    const times = { leaseMs: 60_000, lifeMs: 60_000 };
    assert.deepEqual(await claim('token', times), ['claimed', '1000']);
    assert.deepEqual(await claim('token', times), ['claimed', '1000']);
    assert.equal(((await claim('other', times)) as string[])[0], 'in-flight');
  });

  it('nothing but the first claim sets how long the record lives', async (t) => {
    const { redis, record, claim } = await bareScripts(t);
    await claim('first', { leaseMs: 0, lifeMs: 60_000 });
    await redis.pexpire(record, 30_000);
    await claim('second', { leaseMs: 0, lifeMs: 60_000 });
    await redis.releaseRecord(record, 'second');
    await claim('third', { leaseMs: 0, lifeMs: 60_000 });
    await redis.completeRecord(record, 'third', 202, '/', '{}');
    const left = await redis.pttl(record);
    assert.ok(left > 0 && left <= 30_000, `${left} ms left`);
  });

  it('a cold claim leaves no key behind', async (t) => {
    const { redis, marker, record, claim } = await bareScripts(t);
    await redis.hset(marker, 'history', 'another history');
    const times = { leaseMs: 60_000, lifeMs: 60_000 };
    assert.deepEqual(await claim('token', times), ['cold', '', '']);
    assert.equal(await redis.exists(record), 0);
    assert.equal(await redis.hget(marker, 'history'), 'another history');
  });

  it('a marker of another history gives way whole, warmth and barrier included', async (t) => {
    const { redis, marker } = await bareScripts(t);
    assert.deepEqual(await redis.noteLoss(marker, 'next history', 'next epoch'), [
      'next epoch',
      '',
    ]);
    const { since, ...rest } = await redis.hgetall(marker);
    assert.deepEqual(rest, { epoch: 'next epoch', history: 'next history' });
    assert.match(since!, /^\d{13}$/);
    assert.equal(await redis.ttl(marker), -1);
  });
});
