import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { eventually } from '@triplock/testing';
import { ClaimsUnavailableError, type Claims } from '@triplock/claims';
import { describeClaims } from '@triplock/claims/conformance';
import {
  aClaim,
  aFingerprint,
  expectAnswered,
  expectOutcome,
  hourMs,
  warmUp,
} from '@triplock/claims/test';
import { openHybrid } from './test/open-hybrid.ts';

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
