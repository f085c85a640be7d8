import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import type { PartnerId } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import { createTestKeyspace } from '@triplock/testing';
import { Redis } from 'ioredis';
import { claimTimes, type ClaimRequest, type PartnerLimits } from '../claims.ts';
import {
  aClaim,
  bucketOfClaim,
  expectAnswered,
  expectOutcome,
  hourMs,
  idInBucketOf,
  warmUp,
} from '../test/claims-under-test.ts';
import { openRedisClaims } from './redis-claims.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const globex = 'globex' as PartnerId;

/** Claims of which a partner may hold so many in one bucket, which is warm. */
async function openLimited(t: TestContext, inBucket: Partial<PartnerLimits>) {
  const { url, namespace } = await createTestKeyspace(t);
  const { claimsPerPartner = 1_000, shownBytesPerPartner = 1_000_000 } = inBucket;
  const limits = {
    claimsPerPartner: bucketCount * claimsPerPartner,
    shownBytesPerPartner: bucketCount * shownBytesPerPartner,
  };
  const claims = await openRedisClaims({ url, namespace, logger, ...limits });
  const redis = new Redis(url);
  t.after(async () => {
    redis.disconnect();
    await claims.close();
  });
  const first = aClaim();
  await warmUp(claims, first);
  const next = (wish: Partial<ClaimRequest> = {}) =>
    aClaim({ txnId: idInBucketOf(first), ...wish });
  const tag = `{${namespace}:${bucketOfClaim(first)}}`;
  const keys = () => redis.keys(`${tag.replace('{', '\\{')}*`);
  return { claims, redis, first, next, held: `${tag}:held:acme`, tag, keys };
}

test('a partner that holds as many keys as it may gets no other, and its retries and everybody else do', async (t) => {
  const { claims, first, next } = await openLimited(t, { claimsPerPartner: 2 });
  const { token } = expectOutcome(await claims.claim(first), 'claimed');
  await claims.complete({ ...first, token });
  const second = next();
  const owner = { ...second, ...expectOutcome(await claims.claim(second), 'claimed') };
  const { retryAfterMs } = expectOutcome(await claims.claim(next()), 'over-limit');
  // The first hour of them leaves as a whole, when the last of it may be over.
  assert.ok(retryAfterMs > 24 * hourMs && retryAfterMs <= 25 * hourMs, `${retryAfterMs} ms`);
  expectAnswered(await claims.claim(first), first);
  await claims.release(owner);
  expectOutcome(await claims.claim(second), 'claimed');
  expectOutcome(await claims.claim(next({ partnerId: globex })), 'claimed');
});

test('a claim that is refused leaves nothing behind, and its id is free', async (t) => {
  const { claims, first, next, keys, tag } = await openLimited(t, { claimsPerPartner: 1 });
  expectOutcome(await claims.claim(first), 'claimed');
  const refused = next();
  expectOutcome(await claims.claim(refused), 'over-limit');
  assert.deepEqual(
    (await keys()).filter((key) => key.includes(refused.txnId)),
    [],
  );
  assert.ok(
    (await keys()).every((key) => key.startsWith(tag)),
    'one slot of a cluster',
  );
  assert.deepEqual(await claims.read(refused.txnId), { outcome: 'unknown' });
});

test('keys leave the count with the hour in which they began, once the last of them is over', async (t) => {
  const { claims, redis, first, next, held } = await openLimited(t, { claimsPerPartner: 2 });
  expectOutcome(await claims.claim(first), 'claimed');
  /** As if they had begun so many hours ago. */
  const ageCount = async (hours: number) => {
    const { hour, ...counts } = await redis.hgetall(held);
    const earlier = Number(hour) - hours;
    await redis.hdel(held, hour!);
    await redis.hset(held, { hour: earlier, [earlier]: counts[hour!]! });
  };
  await ageCount(24);
  expectOutcome(await claims.claim(next()), 'claimed');
  const { retryAfterMs } = expectOutcome(await claims.claim(next()), 'over-limit');
  assert.ok(retryAfterMs > 0 && retryAfterMs <= hourMs, `${retryAfterMs} ms`);
  const hour = Math.floor(Number(await redis.hget(held, 'hour')));
  await redis.hset(held, { hour: hour - 1, [hour - 25]: 1 });
  await redis.hdel(held, `${hour - 24}`);
  expectOutcome(await claims.claim(next()), 'claimed');
  assert.equal(await redis.hget(held, 'claims'), '2');
  const left = await redis.pttl(held);
  assert.ok(left > 24 * hourMs && left <= 25 * hourMs, 'it leaves with the last of its claims');
});

test('bytes that are shown are bounded within their short life, and a takeover without room shows nothing', async (t) => {
  const { claims, first, next } = await openLimited(t, { shownBytesPerPartner: 1_000 });
  const [wide, other] = [next({ shown: 'x'.repeat(600) }), next({ shown: 'x'.repeat(600) })];
  const owner = { ...wide, ...expectOutcome(await claims.claim(wide), 'claimed') };
  const { retryAfterMs } = expectOutcome(await claims.claim(other), 'over-limit');
  assert.ok(retryAfterMs > 0 && retryAfterMs <= claimTimes.shownMs, `${retryAfterMs} ms`);
  expectOutcome(await claims.claim({ ...first, shown: 'x'.repeat(300) }), 'claimed');
  await claims.release(owner);
  expectOutcome(await claims.claim(wide), 'claimed');
  expectOutcome(await claims.claim({ ...other, partnerId: globex }), 'claimed');
});

test('what a ledger that is behind has renewed leaves half of the bytes to new claims', async (t) => {
  const limits = { shownBytesPerPartner: 1_000 };
  const { claims, redis, next, held, tag } = await openLimited(t, limits);
  const [one, two] = [next({ shown: 'x'.repeat(300) }), next({ shown: 'y'.repeat(300) })];
  for (const each of [one, two]) expectOutcome(await claims.claim(each), 'claimed');
  const lifeOf = ({ txnId }: ClaimRequest) => redis.pttl(`${tag}:shown:${txnId}`);
  for (const { txnId } of [one, two]) await redis.pexpire(`${tag}:shown:${txnId}`, 20_000);
  // The windows in which they were written are over.
  await redis.hset(held, { window: 0 });
  await claims.renewShown([one, two]);
  const lives = await Promise.all([one, two].map(lifeOf));
  assert.deepEqual(
    lives.map((ms) => ms > 20_000),
    [true, false],
  );
  expectOutcome(await claims.claim(next({ shown: 'z'.repeat(600) })), 'claimed');
});
