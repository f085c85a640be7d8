import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestRedis, eventually, type TestRedis } from '@triplock/testing';
import { ClaimsUnavailableError, type Claims } from '../claims.ts';
import {
  aClaim,
  aFingerprint,
  anAnswer,
  bucketOfClaim,
  expectOutcome,
  warmUp,
} from '../test/claims-under-test.ts';
import { openRedisClaims } from './redis-claims.ts';
import { RedisPolicyError } from './redis-connection.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

async function openOn(test: TestContext, server: TestRedis): Promise<Claims> {
  const claims = await openRedisClaims({ url: server.url, namespace: 'own', logger });
  test.after(() => claims.close());
  return claims;
}

/** The first answer of a store that is away and comes back. */
async function untilAnswered<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      assert.ok(error instanceof ClaimsUnavailableError);
      await new Promise((nextTurn) => setImmediate(nextTurn));
    }
  }
}

/** How long the promise took to reject; it must, and with the error that means "unknown". */
async function rejectionMs(work: Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await assert.rejects(work, ClaimsUnavailableError);
  return performance.now() - begin;
}

describe('claims on a redis that forgets', { concurrency: 2 }, () => {
  it('FLUSHALL is noticed by the next claim', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server);
    const request = aClaim();
    await warmUp(claims, request);
    expectOutcome(await claims.claim(request), 'claimed');
    await server.command('FLUSHALL');
    assert.deepEqual(await claims.claim(request), { outcome: 'cold' });
  });

  it('a restart from a snapshot is noticed: old claims count, silence does not', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server);
    const [saved, lost] = [aClaim(), aClaim()];
    for (const request of [saved, lost]) await warmUp(claims, request);
    const owner = { ...saved, ...expectOutcome(await claims.claim(saved), 'claimed') };
    await claims.complete(owner, anAnswer);
    await server.command('SAVE');
    await claims.claim(lost);
    await server.kill();
    // Asked without a pause, so that a claim is sent in the very moment of the new connection.
    const firstAnswer = untilAnswered(() => claims.claim(lost));
    await server.start();
    assert.deepEqual(await firstAnswer, { outcome: 'cold' });
    expectOutcome(await claims.claim(saved), 'completed');
    const { epoch } = await claims.noteLoss(bucketOfClaim(lost));
    assert.deepEqual(await claims.claim(lost), { outcome: 'cold', epoch });
  });

  it('scripts that the server forgot are loaded again', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server);
    const request = aClaim();
    await warmUp(claims, request);
    await claims.claim(aClaim());
    await server.command('SCRIPT', 'FLUSH');
    const outcomes = await Promise.all(Array.from({ length: 50 }, () => claims.claim(request)));
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'claimed').length, 1);
  });
});

describe('claims on a redis that fails over and back', { concurrency: 2 }, () => {
  const info = async (server: TestRedis) => String(await server.command('INFO', 'replication'));
  const replicate = async (server: TestRedis, from: TestRedis) => {
    const { hostname, port } = new URL(from.url);
    await server.command('REPLICAOF', hostname, port);
    await eventually(async () => /master_link_status:up/.test(await info(server)));
  };

  /** Claims on A, of which B is a replica, in a bucket that B knows to be warm. */
  async function aPair(t: TestContext) {
    const replicated = { running: true, args: ['--repl-diskless-sync-delay', '0'] };
    const [a, b] = [await createTestRedis(t, replicated), await createTestRedis(t, replicated)];
    await replicate(b, a);
    const claims = await openOn(t, a);
    const lost = aClaim();
    await warmUp(claims, lost);
    await eventually(async () => (await b.command('DBSIZE')) === (await a.command('DBSIZE')));
    /** B is promoted while A, cut off from it, goes on; A then gets B's data and is demoted. */
    const failOver = async () => {
      await b.command('REPLICAOF', 'NO', 'ONE');
      const owner = { ...lost, ...expectOutcome(await claims.claim(lost), 'claimed') };
      assert.equal(await claims.complete(owner, anAnswer), 'completed');
      await replicate(a, b);
    };
    const failBack = () => a.command('REPLICAOF', 'NO', 'ONE');
    return { claims, lost, failOver, failBack };
  }

  it('what was lost on the way is no new key: the process is the same, its history is not', async (t) => {
    const { claims, lost, failOver, failBack } = await aPair(t);
    await failOver();
    await failBack();
    await eventually(() => claims.ping().then(() => true));
    assert.deepEqual(await claims.read(lost.txnId), { outcome: 'cold' });
    const reused = { ...lost, fingerprint: aFingerprint() };
    assert.deepEqual(await claims.claim(reused), { outcome: 'cold' });
  });

  it('it is noticed within seconds although the connection stayed and nobody asked', async (t) => {
    const { claims, lost, failOver, failBack } = await aPair(t);
    await failOver();
    await failBack();
    const read = () => claims.read(lost.txnId).catch(() => ({ outcome: 'away' as const }));
    await eventually(async () => (await read()).outcome === 'cold', {
      withinMs: 10_000,
      what: 'the next look',
    });
  });

  it('a demoted primary answers nothing from its old markers', async (t) => {
    const { claims, lost, failOver, failBack } = await aPair(t);
    await failOver();
    await assert.rejects(claims.ping(), ClaimsUnavailableError);
    await assert.rejects(claims.read(lost.txnId), ClaimsUnavailableError);
    await assert.rejects(claims.claim(lost), ClaimsUnavailableError);
    await failBack();
    await eventually(async () => (await claims.claim(lost)).outcome === 'cold', {
      withinMs: 10_000,
      what: 'the promotion',
    });
  });
});

describe('claims on a redis that is away', { concurrency: 2 }, () => {
  it('a redis that stands still makes claims unknown within two seconds, then at once', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server);
    const request = aClaim();
    await warmUp(claims, request);
    server.pause();
    const waits = await Promise.all(
      Array.from({ length: 200 }, () => rejectionMs(claims.claim(request))),
    );
    assert.ok(Math.max(...waits) < 2_000, `slowest ${Math.max(...waits)} ms`);
    assert.ok((await rejectionMs(claims.claim(request))) < 100);
    await assert.rejects(claims.ping());
    server.resume();
    await eventually(() => claims.ping().then(() => true));
    // One of the unanswered claims reached the server after all. Nobody works on it, so it is
    // released long before its lease of 30 s is over.
    await eventually(async () => (await claims.claim(request)).outcome === 'claimed');
  });

  it('a killed redis makes claims fail at once, and they work again when it is back', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server);
    await server.kill();
    assert.ok((await rejectionMs(claims.claim(aClaim()))) < 1_000);
    await server.start();
    const cold = await eventually(() => claims.claim(aClaim()));
    assert.deepEqual(cold, { outcome: 'cold' });
  });

  it('claims can be opened while redis is away and work once it comes', async (t) => {
    const server = await createTestRedis(t, { running: false });
    const claims = await openOn(t, server);
    await assert.rejects(claims.claim(aClaim()), ClaimsUnavailableError);
    await server.start();
    await eventually(() => claims.ping().then(() => true));
  });
});

describe('claims on a redis that evicts', { concurrency: 2 }, () => {
  const evicting = { running: true, args: ['--maxmemory-policy', 'volatile-lru'] };

  it('any policy but noeviction is refused at the start, whether or not memory is limited', async (t) => {
    const server = await createTestRedis(t, evicting);
    await assert.rejects(openOn(t, server), (error: Error) => {
      assert.ok(error instanceof RedisPolicyError);
      assert.match(error.message, /maxmemory-policy volatile-lru.*set maxmemory-policy noeviction/);
      return true;
    });
  });

  it('a policy that is only seen later makes claims and readiness fail until it is put right', async (t) => {
    const server = await createTestRedis(t, { ...evicting, running: false });
    const claims = await openOn(t, server);
    await server.start();
    await eventually(() =>
      claims.ping().then(
        () => false,
        (error: Error) => /volatile-lru/.test(error.message),
      ),
    );
    await assert.rejects(claims.claim(aClaim()), /volatile-lru/);
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    await eventually(() => claims.ping().then(() => true));
    expectOutcome(await claims.claim(aClaim()), 'cold');
  });
});
