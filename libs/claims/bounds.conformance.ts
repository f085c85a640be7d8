import assert from 'node:assert/strict';
import { it, type TestContext } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import type { PartnerId } from '@triplock/payments';
import type { ClaimRequest, PartnerLimits } from './claims.ts';
import {
  aClaim,
  aFingerprint,
  expectAnswered,
  expectOutcome,
  hourMs,
  idInBucketOf,
  lasting,
  warmUp,
  type OpenClaims,
} from './test/claims-under-test.ts';

const globex = 'globex' as PartnerId;

/** What a store bounds: PartnerLimits says why some leave bytes free. */
export type Bounded = { shownBytes: 'bounded' | 'free' };

/** How much one partner may hold, so that it stops only itself. */
export function describeBounds(open: OpenClaims, { shownBytes }: Bounded): void {
  describeClaimBounds(open);
  describeCounting(open);
  if (shownBytes === 'bounded') describeShownBounds(open);
}

/** Claims of which a partner may hold so many in one bucket, which is warm. */
async function openLimited(
  { t, open }: { t: TestContext; open: OpenClaims },
  inBucket: Partial<PartnerLimits>,
) {
  const { claimsPerPartner = 1_000, shownBytesPerPartner = 1_000_000 } = inBucket;
  const opened = await open(t, {
    ...lasting,
    claimsPerPartner: bucketCount * claimsPerPartner,
    shownBytesPerPartner: bucketCount * shownBytesPerPartner,
  });
  const first = aClaim();
  await warmUp(opened.claims, first);
  const next = (wish: Partial<ClaimRequest> = {}) =>
    aClaim({ txnId: idInBucketOf(first), ...wish });
  return { ...opened, first, next };
}

function describeClaimBounds(open: OpenClaims): void {
  it('a partner that holds as many keys as it may gets no other, and its retries and everybody else do', async (t) => {
    const { claims, first, next } = await openLimited({ t, open }, { claimsPerPartner: 2 });
    const { token } = expectOutcome(await claims.claim(first), 'claimed');
    await claims.complete({ ...first, token });
    const second = next();
    const owner = { ...second, ...expectOutcome(await claims.claim(second), 'claimed') };
    const { retryAfterMs } = expectOutcome(await claims.claim(next()), 'over-limit');
    // The first hour of them leaves as a whole, when the last of it may be over.
    assert.ok(retryAfterMs > 24 * hourMs && retryAfterMs <= 25 * hourMs, `${retryAfterMs} ms`);
    expectAnswered(await claims.claim(first), first);
    expectOutcome(await claims.claim({ ...first, fingerprint: aFingerprint() }), 'reused');
    await claims.release(owner);
    expectOutcome(await claims.claim(second), 'claimed');
    expectOutcome(await claims.claim(next({ partnerId: globex })), 'claimed');
  });

  it('a claim that is refused leaves nothing behind, and its id is free', async (t) => {
    const { claims, first, next } = await openLimited({ t, open }, { claimsPerPartner: 1 });
    expectOutcome(await claims.claim(first), 'claimed');
    const refused = next();
    expectOutcome(await claims.claim(refused), 'over-limit');
    assert.deepEqual(await claims.read(refused.txnId), { outcome: 'unknown' });
    // Whose id it is, is not settled: had the refused claim left a trace, this one would be reused.
    const other = { ...refused, partnerId: globex, fingerprint: aFingerprint() };
    expectOutcome(await claims.claim(other), 'claimed');
  });

  it('of many keys at once by two ways exactly as many are claimed as there may be', async (t) => {
    const { claims, another, next } = await openLimited({ t, open }, { claimsPerPartner: 5 });
    const ways = [claims, await another()];
    const asked = Array.from({ length: 40 }, (_, each) => ways[each % 2]!.claim(next()));
    const outcomes = (await Promise.all(asked)).map(({ outcome }) => outcome);
    assert.deepEqual(
      [outcomes.filter((each) => each === 'claimed'), new Set(outcomes)],
      [Array(5).fill('claimed'), new Set(['claimed', 'over-limit'])],
    );
  });
}

function describeCounting(open: OpenClaims): void {
  it('one request counts once, however often and by however many it is sent', async (t) => {
    const { claims, another, first, next } = await openLimited(
      { t, open },
      { claimsPerPartner: 2 },
    );
    const ways = [claims, await another()];
    const asked = Array.from({ length: 30 }, (_, each) => ways[each % 2]!.claim(first));
    const claimed = (await Promise.all(asked)).find(({ outcome }) => outcome === 'claimed');
    await claims.release({ ...first, ...expectOutcome(claimed!, 'claimed') });
    expectOutcome(await claims.claim(first), 'claimed');
    expectOutcome(await claims.claim(next()), 'claimed');
    expectOutcome(await claims.claim(next()), 'over-limit');
  });

  it('keys leave the count with the hour in which they began, once the last of them is over', async (t) => {
    const { claims, ageHeld, first, next } = await openLimited(
      { t, open },
      { claimsPerPartner: 2 },
    );
    expectOutcome(await claims.claim(first), 'claimed');
    await ageHeld(first, 24 * hourMs);
    expectOutcome(await claims.claim(next()), 'claimed');
    const { retryAfterMs } = expectOutcome(await claims.claim(next()), 'over-limit');
    assert.ok(retryAfterMs > 0 && retryAfterMs <= hourMs, `${retryAfterMs} ms`);
    await ageHeld(first, hourMs);
    expectOutcome(await claims.claim(next()), 'claimed');
    const { retryAfterMs: later } = expectOutcome(await claims.claim(next()), 'over-limit');
    assert.ok(later > 23 * hourMs && later <= 24 * hourMs, `${later} ms`);
    await ageHeld(first, 100 * hourMs);
    for (let each = 0; each < 2; each += 1) {
      expectOutcome(await claims.claim(next()), 'claimed');
    }
    expectOutcome(await claims.claim(next()), 'over-limit');
  });
}

function describeShownBounds(open: OpenClaims): void {
  it('bytes that are shown are bounded within their short life, and a takeover without room shows nothing', async (t) => {
    const { claims, first, next } = await openLimited({ t, open }, { shownBytesPerPartner: 1_000 });
    const [wide, other] = [next({ shown: 'x'.repeat(600) }), next({ shown: 'x'.repeat(600) })];
    const owner = { ...wide, ...expectOutcome(await claims.claim(wide), 'claimed') };
    const { retryAfterMs } = expectOutcome(await claims.claim(other), 'over-limit');
    assert.ok(retryAfterMs > 0 && retryAfterMs <= lasting.shownMs, `${retryAfterMs} ms`);
    expectOutcome(await claims.claim({ ...first, shown: 'x'.repeat(300) }), 'claimed');
    await claims.release(owner);
    expectOutcome(await claims.claim({ ...wide, shown: 'y'.repeat(600) }), 'claimed');
    const read = await claims.read(wide.txnId);
    assert.equal(read.outcome === 'pending' && read.shown, wide.shown);
    expectOutcome(await claims.claim({ ...other, partnerId: globex }), 'claimed');
  });

  it('bytes leave the count after the stretch of time that follows theirs', async (t) => {
    const { claims, ageHeld, first, next } = await openLimited(
      { t, open },
      { shownBytesPerPartner: 1_000 },
    );
    const wide = () => next({ shown: 'ä'.repeat(300) });
    expectOutcome(await claims.claim(wide()), 'claimed');
    await ageHeld(first, lasting.shownMs);
    expectOutcome(await claims.claim(wide()), 'over-limit');
    await ageHeld(first, lasting.shownMs);
    expectOutcome(await claims.claim(wide()), 'claimed');
  });

  it('what a ledger that is behind has renewed leaves half of the bytes to new claims', async (t) => {
    const { claims, another, age, ageHeld, first, next } = await openLimited(
      { t, open },
      { shownBytesPerPartner: 1_000 },
    );
    const [one, two] = [next({ shown: 'x'.repeat(300) }), next({ shown: 'y'.repeat(300) })];
    for (const each of [one, two]) expectOutcome(await claims.claim(each), 'claimed');
    await age(one.txnId, 0.2 * hourMs);
    // Young: nothing is counted for them.
    for (let each = 0; each < 5; each += 1) await claims.renewShown([one, two]);
    for (const { txnId } of [one, two]) await age(txnId, 0.6 * hourMs);
    // The stretches in which they were written are over.
    await ageHeld(first, 2 * lasting.shownMs);
    const other = await another();
    await Promise.all([claims.renewShown([one, two]), other.renewShown([two, one])]);
    for (const { txnId } of [one, two]) await age(txnId, 0.8 * hourMs);
    const reads = await Promise.all([one, two].map(({ txnId }) => claims.read(txnId)));
    const shown = reads.filter((read) => read.outcome === 'pending' && read.shown !== undefined);
    assert.equal(shown.length, 1);
    expectOutcome(await claims.claim(next({ shown: 'z'.repeat(600) })), 'claimed');
  });
}
