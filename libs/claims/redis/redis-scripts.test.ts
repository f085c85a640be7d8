import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { testNamespace, testPart } from '@triplock/testing';
import { Redis } from 'ioredis';
import { hourMs } from '../test/claims-under-test.ts';
import { scripts, type ScriptName } from './redis-claims.ts';

type Scripted = Redis & Record<ScriptName, (...args: (string | number)[]) => Promise<unknown>>;

/** A client for the bare scripts and the keys of one claim, deleted after the test. */
async function bareScripts(test: TestContext) {
  const url = await testPart('redis');
  const redis = new Redis(url, { scripts: { ...scripts } }) as Scripted;
  const tag = `{${testNamespace('scripts')}:0}`;
  const [marker, record] = [`${tag}:marker`, `${tag}:claim:some-id`];
  const [shown, held] = [`${tag}:shown:some-id`, `${tag}:held:acme`];
  test.after(async () => {
    await redis.del(marker, record, shown, held);
    await redis.quit();
  });
  const writes = /master_replid:(\w+)/.exec(await redis.info('replication'))?.[1];
  const history = `run/${writes}`;
  const noteLoss = (epoch: string, known = history, nowMs = Date.now()) =>
    redis.noteLoss(marker, known, epoch, nowMs);
  assert.deepEqual(await noteLoss('epoch'), ['epoch', '']);
  await redis.setBarrier(marker, 'epoch', '{}', '1');
  const claim = (
    token: string,
    times: { leaseMs: number; lifeMs: number },
    { known = history, nowMs = Date.now(), ledgerCheckedIn = '' } = {},
  ) =>
    redis.claimRecord(
      ...[
        marker,
        record,
        shown,
        held,
        known,
        nowMs,
        times.leaseMs,
        times.lifeMs,
        times.lifeMs,
        1,
        100,
      ],
      ...[token, 'print', 'acme', 'payment', 1_000, 1, '', '{}', ledgerCheckedIn],
    );
  return { redis, marker, record, shown, held, claim, noteLoss, history };
}

describe('the scripts', () => {
  it('a claim that is sent twice over is still its own', async (t) => {
    const { claim } = await bareScripts(t);
    const times = { leaseMs: 60_000, lifeMs: 60_000 };
    assert.deepEqual(await claim('token', times), ['claimed', '1000', '1']);
    assert.deepEqual(await claim('token', times), ['claimed', '1000', '1']);
    assert.equal(((await claim('other', times)) as string[])[0], 'in-flight');
  });

  it('a claim and a completion begin the life of the record anew, and nothing else does', async (t) => {
    const { redis, record, claim } = await bareScripts(t);
    const times = { leaseMs: 0, lifeMs: 60_000 };
    /** What is left of a life of a minute, of which half was over. */
    const leftAfter = async (step: () => Promise<unknown>) => {
      await redis.pexpire(record, 30_000);
      await step();
      return (await redis.pttl(record)) > 30_000 ? 'all' : 'half';
    };
    await claim('first', times);
    assert.equal(await leftAfter(() => claim('second', times)), 'all');
    assert.equal(await leftAfter(() => redis.releaseRecord(record, 'second')), 'half');
    const completeAs = (token: string) => () => redis.completeRecord(record, times.lifeMs, token);
    assert.equal(await leftAfter(completeAs('first')), 'half');
    assert.equal(await leftAfter(completeAs('second')), 'all');
    assert.equal(await leftAfter(() => claim('third', times)), 'half');
  });

  it('a cold claim leaves no key behind', async (t) => {
    const { redis, marker, record, shown, held, claim } = await bareScripts(t);
    await redis.hset(marker, 'history', 'another history');
    const times = { leaseMs: 60_000, lifeMs: 60_000 };
    assert.deepEqual(await claim('token', times), ['cold', '', '']);
    assert.equal(await redis.exists(record, shown, held), 0);
    assert.equal(await redis.hget(marker, 'history'), 'another history');
  });

  it('a server that is not as the caller knows it proves nothing, whatever its markers say', async (t) => {
    const { redis, marker, record, shown, claim, noteLoss, history } = await bareScripts(t);
    const times = { leaseMs: 60_000, lifeMs: 60_000 };
    const other = `run/${'0'.repeat(40)}`;
    const dayMs = 86_400_000;
    for (const told of [
      { known: other, markedBy: other },
      { nowMs: Date.now() - dayMs, markedBy: history },
      { nowMs: Date.now() + dayMs, markedBy: history },
    ]) {
      await redis.hset(marker, 'history', told.markedBy);
      const { known, nowMs } = { known: history, nowMs: Date.now(), ...told };
      for (const ledgerCheckedIn of ['', 'epoch']) {
        const reply = await claim('token', times, { known, nowMs, ledgerCheckedIn });
        assert.deepEqual(reply, ['cold', '', '']);
      }
      const read = await redis.readRecord(marker, record, shown, known, nowMs, times.lifeMs);
      assert.deepEqual(read, ['cold', '', '']);
      await assert.rejects(noteLoss('next epoch', known, nowMs), /not the server/);
    }
    assert.equal(await redis.exists(record, shown), 0);
    assert.equal(await redis.hget(marker, 'epoch'), 'epoch');
  });

  it('what a partner holds leaves with the last of its claims', async (t) => {
    const { redis, held, claim } = await bareScripts(t);
    const times = { leaseMs: 60_000, lifeMs: 24 * hourMs };
    assert.deepEqual(await claim('token', times), ['claimed', '1000', '1']);
    const left = await redis.pttl(held);
    assert.ok(left > 24 * hourMs && left <= 25 * hourMs, `${left} ms`);
  });

  it('a marker of another history gives way whole, warmth and barrier included', async (t) => {
    const { redis, marker, noteLoss, history } = await bareScripts(t);
    const next = history.replace('run', 'next run');
    assert.deepEqual(await noteLoss('next epoch', next), ['next epoch', '']);
    const { since, ...rest } = await redis.hgetall(marker);
    assert.deepEqual(rest, { epoch: 'next epoch', history: next });
    assert.match(since!, /^\d{13}$/);
    assert.equal(await redis.ttl(marker), -1);
  });
});
