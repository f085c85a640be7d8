import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { describe, it, test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import {
  createTestRedis,
  createTestRedisProxy,
  eventually,
  type TestRedis,
} from '@triplock/testing';
import type { Redis } from 'ioredis';
import { ClaimsUnavailableError, type Claims } from '../claims.ts';
import {
  aClaim,
  aFingerprint,
  bucketOfClaim,
  expectAnswered,
  expectOutcome,
  hourMs,
  idInBucketOf,
  warmUp,
} from '../test/claims-under-test.ts';
import { openRedisClaims } from './redis-claims.ts';
import { watchServer } from './redis-server.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

async function openOn(test: TestContext, server: { url: string }): Promise<Claims> {
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
    await claims.complete(owner);
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

async function replicate(server: TestRedis, from: TestRedis): Promise<void> {
  const { hostname, port } = new URL(from.url);
  await server.command('REPLICAOF', hostname, port);
  const linked = async () =>
    /master_link_status:up/.test(String(await server.command('INFO', 'replication')));
  // A replica whose first try is refused or cut off begins anew, at its own pace.
  await eventually(linked, { withinMs: 60_000, what: 'a replica that follows its primary' });
}

/** A question that got no answer. */
function away(error: unknown): { outcome: 'away' } {
  assert.ok(error instanceof ClaimsUnavailableError, String(error));
  return { outcome: 'away' };
}

describe('claims on a redis that fails over and back', { concurrency: 2 }, () => {
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
      assert.equal(await claims.complete(owner), 'completed');
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

// One after the other: a test of a clock sets the one of this whole process.
describe('claims on a redis that is not the one it was', () => {
  it('a demoted primary that still answers from its old data is asked in vain', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server);
    const elsewhere = aClaim();
    await warmUp(claims, elsewhere);
    // Of a primary that it does not reach: it goes on serving reads of what it had.
    await server.command('REPLICAOF', '127.0.0.1', '1');
    const seen = await claims.read(elsewhere.txnId).catch(away);
    assert.notEqual(seen.outcome, 'unknown');
    assert.notEqual((await claims.claim(elsewhere).catch(away)).outcome, 'claimed');
    await assert.rejects(claims.noteLoss(bucketOfClaim(elsewhere)), ClaimsUnavailableError);
  });

  /** Claims on A by a proxy, a warm bucket that B has too, and a claim that B never got. */
  async function behindProxy(t: TestContext) {
    const replicated = { running: true, args: ['--repl-diskless-sync-delay', '0'] };
    const [a, b] = [await createTestRedis(t, replicated), await createTestRedis(t, replicated)];
    await replicate(b, a);
    const proxy = await createTestRedisProxy(t, a);
    const claims = await openOn(t, proxy);
    const lost = aClaim();
    await warmUp(claims, lost);
    await eventually(async () => (await b.command('DBSIZE')) === (await a.command('DBSIZE')));
    await b.command('REPLICAOF', 'NO', 'ONE');
    const owner = { ...lost, ...expectOutcome(await claims.claim(lost), 'claimed') };
    assert.equal(await claims.complete(owner), 'completed');
    return { a, b, proxy, claims, lost };
  }

  it('a replica that a proxy leads to without a word proves nothing about what it never got', async (t) => {
    const { b, proxy, claims, lost } = await behindProxy(t);
    await proxy.leadTo(b);
    assert.notEqual((await claims.read(lost.txnId).catch(away)).outcome, 'unknown');
    const reused = { ...lost, fingerprint: aFingerprint() };
    assert.notEqual((await claims.claim(reused).catch(away)).outcome, 'claimed');
    await claims.ping();
    assert.deepEqual(await claims.claim(reused), { outcome: 'cold' });
  });

  it('a server that a proxy comes back to proves nothing about claims made meanwhile', async (t) => {
    const { a, b, proxy, claims, lost } = await behindProxy(t);
    await proxy.leadTo(b);
    await claims.ping();
    const meanwhile = { ...aClaim(), txnId: idInBucketOf(lost) };
    await warmUp(claims, meanwhile);
    expectOutcome(await claims.claim(meanwhile), 'claimed');
    await proxy.leadTo(a);
    await claims.ping();
    assert.deepEqual(await claims.read(meanwhile.txnId), { outcome: 'cold' });
    // A gateway that never left it sees the same, and what it holds still counts.
    const other = await openOn(t, a);
    assert.deepEqual(await other.read(meanwhile.txnId), { outcome: 'cold' });
    expectAnswered(await other.claim(lost), lost);
  });

  it('a server whose clock was set a day ahead proves nothing about claims that it ended', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server);
    const ended = aClaim();
    const bucket = bucketOfClaim(ended);
    const { epoch } = await claims.noteLoss(bucket);
    await claims.setBarrier({ bucket, epoch, barrier: '{}', warm: false });
    expectOutcome(await claims.claim({ ...ended, ledgerCheckedIn: epoch }), 'claimed');
    // What such a clock does: the record is gone, the marker is old, and more time has passed there
    // than here.
    await server.command('DEL', `{own:${bucket}}:claim:${ended.txnId}`);
    await server.command('HINCRBY', `{own:${bucket}}:marker`, 'since', `${-25 * hourMs}`);
    const now = performance.now.bind(performance);
    t.mock.method(performance, 'now', () => now() - 25 * hourMs);
    assert.notEqual((await claims.read(ended.txnId).catch(away)).outcome, 'unknown');
    assert.notEqual((await claims.claim(ended).catch(away)).outcome, 'claimed');
    await claims.ping();
    assert.deepEqual(await claims.read(ended.txnId), { outcome: 'cold' });
    // For every gateway, also one that knows no other time.
    const other = await openOn(t, server);
    assert.deepEqual(await other.claim(ended), { outcome: 'cold' });
    assert.notEqual((await other.noteLoss(bucket)).epoch, epoch);
  });
});

test('what a connection that is gone would still say of its server is not believed', async () => {
  const answers: ((info: string) => void)[] = [];
  const connection = Object.assign(new EventEmitter(), {
    info: () => new Promise<string>((answer) => answers.push(answer)),
    time: async () => [1_700_000_000, 0],
    disconnect: () => undefined,
  });
  const onDoubt = async () => assert.fail('there is nothing to doubt');
  const server = watchServer(connection as unknown as Redis, { logger, onDoubt });
  const fit = 'run_id:a\nmaster_replid:b\nrole:master\nmaxmemory_policy:noeviction\n';
  const asked = server.inspect();
  connection.emit('close');
  answers[0]!(fit);
  await assert.rejects(asked, /was lost while it was inspected/);
  assert.equal(server.state().state, 'away');
  const again = server.inspect();
  answers[1]!(fit);
  await again;
  assert.equal(server.state().state, 'suitable');
  server.stop();
});
