import assert from 'node:assert/strict';
import { after, describe, it, type TestContext } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import {
  createTestDatabase,
  createTestKeyspace,
  createTestRelay,
  eventually,
} from '@triplock/testing';
import { Redis } from 'ioredis';
import { openPostgresWalk } from '@triplock/claims-postgres';
import { ageHeldRow, ageRow, bytesOfRow, forgetRows } from '@triplock/claims-postgres/test';
import {
  ClaimsUnavailableError,
  type Claims,
  type ClaimTimes,
  type PartnerLimits,
  type ShownClaim,
} from '@triplock/claims';
import { describeClaims } from '@triplock/claims/conformance';
import {
  aClaim,
  aFingerprint,
  expectAnswered,
  expectOutcome,
  hourMs,
  warmUp,
} from '@triplock/claims/test';
import { openHybridClaims } from './hybrid-claims.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
// One database for a whole file: every test has a namespace of its own.
const database = await createTestDatabase({ after });
const owner = database.open();

/**
 * Hybrid claims whose two stores are reached by ways of their own, and hands to change both with.
 */
async function openHybrid(t: TestContext, times: Partial<ClaimTimes & PartnerLimits> = {}) {
  const keys = await createTestKeyspace(t);
  const { namespace } = keys;
  const url = database.url('triplock_claims');
  const [relay, cache] = [await createTestRelay(t, url), await createTestRelay(t, keys.url)];
  const redis = new Redis(keys.url);
  t.after(() => redis.quit());
  const open = async (way: string, cacheUrl: string) => {
    const named = { namespace, applicationName: 'test', logger };
    const claims = await openHybridClaims({ url: way, cacheUrl, ...named, ...times });
    t.after(() => claims.close());
    return claims;
  };
  const answerOf = (txnId: TxnId) =>
    `{${namespace}:${bucketOf(txnId, bucketCount)}}:answer:${txnId}`;
  return {
    claims: await open(relay.url, cache.url),
    another: () => open(url, keys.url),
    async openWalk() {
      const named = { namespace, applicationName: 'test', logger };
      const walk = openPostgresWalk({ url: relay.url, ...named, ...times });
      t.after(() => walk.close());
      return walk;
    },
    forget: () => forgetRows(owner, namespace),
    async age(txnId: TxnId, ms: number) {
      await ageRow(owner, { namespace, txnId, ms });
      const left = (await redis.pttl(answerOf(txnId))) - ms;
      if (left > 0) await redis.pexpire(answerOf(txnId), left);
      else await redis.del(answerOf(txnId));
    },
    ageHeld: (claim: ShownClaim, ms: number) => ageHeldRow(owner, { namespace, claim, ms }),
    async bytes(txnId: TxnId) {
      const cached = await redis.memory('USAGE', answerOf(txnId));
      return (cached ?? 0) + (await bytesOfRow(owner, { namespace, txnId }));
    },
    relay,
    cache,
    redis,
    answerOf,
    dropCache: () => keys.forget(),
    ageInPostgres: (txnId: TxnId, ms: number) => ageRow(owner, { namespace, txnId, ms }),
  };
}

describeClaims('redis before postgres', openHybrid);

/** A completed claim that no retry has met yet. */
async function aCompletedClaim(t: TestContext) {
  const hybrid = await openHybrid(t);
  const request = aClaim();
  await warmUp(hybrid.claims, request);
  const owner = { ...request, ...expectOutcome(await hybrid.claims.claim(request), 'claimed') };
  await hybrid.claims.complete(owner);
  const cached = () => hybrid.redis.exists(hybrid.answerOf(request.txnId));
  return { ...hybrid, request, cached };
}

/** A completed claim whose answer is in the cache. */
async function aCachedAnswer(t: TestContext) {
  const hybrid = await aCompletedClaim(t);
  await eventually(async () => {
    await replay(hybrid.claims, hybrid.request);
    return (await hybrid.cached()) === 1;
  });
  return hybrid;
}

async function replay(claims: Claims, request: ReturnType<typeof aClaim>): Promise<void> {
  expectAnswered(await claims.claim(request), request);
}

describe('answers in the cache', () => {
  it('the first retry caches the answer, and retries then need no postgres', async (t) => {
    const { claims, request, cached, relay } = await aCompletedClaim(t);
    assert.equal(await cached(), 0);
    await eventually(async () => {
      await replay(claims, request);
      return (await cached()) === 1;
    });
    await relay.cut();
    await replay(claims, request);
    await assert.rejects(claims.claim(aClaim()), ClaimsUnavailableError);
  });

  it('whichever retry caches the answer, and whichever gets it, it is that of the first claim', async (t) => {
    const { claims, request, cached, relay } = await aCompletedClaim(t);
    // Of gateways of other releases, which render in newer forms.
    const retry = (responseVersion: number) => {
      return claims.claim({ ...request, acceptedAt: new Date(), responseVersion });
    };
    await eventually(async () => {
      expectAnswered(await retry(4), request);
      return (await cached()) === 1;
    });
    await relay.cut();
    expectAnswered(await retry(5), request);
  });

  it('a claim that is not completed is never cached', async (t) => {
    const { claims, redis, answerOf } = await openHybrid(t);
    const request = aClaim();
    await warmUp(claims, request);
    const { token } = expectOutcome(await claims.claim(request), 'claimed');
    expectOutcome(await claims.claim(request), 'in-flight');
    await claims.release({ ...request, token });
    expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'reused');
    assert.equal(await redis.exists(answerOf(request.txnId)), 0);
  });

  it('losing the cache changes no answer', async (t) => {
    const { claims, request, dropCache, cached } = await aCachedAnswer(t);
    await dropCache();
    expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'reused');
    await replay(claims, request);
    await eventually(async () => (await cached()) === 1);
  });

  it('a cache that stands still or is gone changes no answer', async (t) => {
    const { claims, request, cache } = await aCachedAnswer(t);
    cache.freeze();
    await replay(claims, request);
    expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'reused');
    await cache.restore();
    await cache.cut();
    await replay(claims, request);
    await cache.restore();
    await replay(claims, request);
  });

  it('where the two disagree about the request, postgres is right', async (t) => {
    const { claims, request, redis, answerOf } = await aCachedAnswer(t);
    const other = { ...request, fingerprint: aFingerprint() };
    await redis.hset(
      answerOf(request.txnId),
      ...['fingerprint', other.fingerprint, 'answer', '"wrong"'],
    );
    await replay(claims, request);
  });

  it('a cached answer lives no longer than its claim', async (t) => {
    const { claims, request, redis, answerOf, ageInPostgres, cached } = await aCompletedClaim(t);
    await ageInPostgres(request.txnId, 23 * hourMs);
    // Whatever the time is here, the cache ends it by its own.
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 25 * hourMs });
    await eventually(async () => {
      await replay(claims, request);
      return (await cached()) === 1;
    });
    const left = await redis.pttl(answerOf(request.txnId));
    assert.ok(left > 0 && left <= hourMs, `${left} ms left`);
  });

  it('another request with a cached key is refused, and the answer stays', async (t) => {
    const { claims, request } = await aCachedAnswer(t);
    expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'reused');
    await replay(claims, request);
  });
});
