import assert from 'node:assert/strict';
import { it } from 'node:test';
import { shownBytesMax, type BucketEpoch, type PendingRead } from './claims.ts';
import {
  aClaim,
  aFingerprint,
  bucketOfClaim,
  complete,
  expectAnswered,
  expectOutcome,
  hourMs,
  idInBucketOf,
  lasting,
  warmUp,
  type OpenClaims,
} from './test/claims-under-test.ts';

/** What a claim store knows of its own losses. */
export function describeLosses(open: OpenClaims): void {
  describeLoss(open);
  describeLedgerChecks(open);
  describeReads(open);
}

function describeLoss(open: OpenClaims): void {
  it('a store that remembers nothing answers cold and writes nothing', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    assert.equal(expectOutcome(await claims.claim(request), 'cold').epoch, undefined);
    await warmUp(claims, request);
    // Had the cold claim left a trace, this one would be reused.
    expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'claimed');
  });

  it('racing to note a loss begins one epoch', async (t) => {
    const { claims } = await open(t, lasting);
    const noted = await Promise.all(Array.from({ length: 20 }, () => claims.noteLoss(7)));
    assert.equal(new Set(noted.map(({ epoch }) => epoch)).size, 1);
  });

  it('every loss begins another epoch', async (t) => {
    const { claims, forget } = await open(t, lasting);
    const before = await claims.noteLoss(7);
    await forget();
    assert.notEqual((await claims.noteLoss(7)).epoch, before.epoch);
  });

  it('a bucket stays cold until its barrier is known, and shows epoch and barrier', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    const bucket = bucketOfClaim(request);
    const { epoch } = await claims.noteLoss(bucket);
    assert.deepEqual(await claims.claim(request), { outcome: 'cold', epoch });
    await claims.setBarrier({ bucket, epoch, barrier: '{"0":"12"}', warm: false });
    const marker = { epoch, barrier: '{"0":"12"}' };
    assert.deepEqual(await claims.claim(request), { outcome: 'cold', ...marker });
    assert.deepEqual(await claims.read(request.txnId), { outcome: 'cold', ...marker });
    assert.deepEqual(await claims.noteLoss(bucket), marker);
  });

  it('the first barrier of an epoch stays', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    const bucket = bucketOfClaim(request);
    const { epoch } = await claims.noteLoss(bucket);
    await claims.setBarrier({ bucket, epoch, barrier: 'first', warm: false });
    await claims.setBarrier({ bucket, epoch, barrier: 'second', warm: true });
    assert.equal(expectOutcome(await claims.claim(request), 'cold').barrier, 'first');
  });

  it('a barrier that was read before another loss is refused', async (t) => {
    const { claims, forget } = await open(t, lasting);
    const request = aClaim();
    const bucket = bucketOfClaim(request);
    const { epoch } = await claims.noteLoss(bucket);
    await forget();
    await claims.setBarrier({ bucket, epoch, barrier: 'too low', warm: true });
    assert.deepEqual(await claims.claim(request), { outcome: 'cold' });
    await claims.noteLoss(bucket);
    await claims.setBarrier({ bucket, epoch, barrier: 'too low', warm: true });
    assert.equal(expectOutcome(await claims.claim(request), 'cold').barrier, undefined);
  });

  it('a bucket that remembered for the life of a claim is warm by itself', async (t) => {
    // Long enough for the steps before the first claim on a busy machine.
    const { claims } = await open(t, { ...lasting, lifeMs: 2_000 });
    const request = aClaim();
    const bucket = bucketOfClaim(request);
    const { epoch } = await claims.noteLoss(bucket);
    await claims.setBarrier({ bucket, epoch, barrier: 'a barrier', warm: false });
    expectOutcome(await claims.claim(request), 'cold');
    await t.waitFor(
      async () => assert.equal((await claims.read(request.txnId)).outcome, 'unknown'),
      { timeout: 20_000 },
    );
    expectOutcome(await claims.claim(request), 'claimed');
  });

  it('a bucket that was marked cold is cold, and what it holds still counts', async (t) => {
    const { claims, another } = await open(t, lasting);
    const [kept, other] = [aClaim(), aClaim()];
    const before = await warmUp(claims, kept);
    await claims.claim(kept);
    await (await another()).markCold(bucketOfClaim(kept));
    expectOutcome(await claims.claim(kept), 'in-flight');
    const same = { ...other, txnId: idInBucketOf(kept) };
    assert.deepEqual(await claims.claim(same), { outcome: 'cold' });
    assert.deepEqual(await claims.read(same.txnId), { outcome: 'cold' });
    const { epoch } = await claims.noteLoss(bucketOfClaim(kept));
    assert.notEqual(epoch, before);
    assert.deepEqual(await claims.claim(same), { outcome: 'cold', epoch });
    await claims.markCold((bucketOfClaim(kept) + 1) % 64);
  });

  it('a loss in one bucket leaves another warm', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    await claims.noteLoss((bucketOfClaim(request) + 1) % 64);
    expectOutcome(await claims.claim(request), 'claimed');
  });
}

function describeLedgerChecks(open: OpenClaims): void {
  it('the answer of the ledger claims in a cold bucket, within its epoch', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    const bucket = bucketOfClaim(request);
    const { epoch } = await claims.noteLoss(bucket);
    await claims.setBarrier({ bucket, epoch, barrier: 'a barrier', warm: false });
    expectOutcome(await claims.claim({ ...request, ledgerCheckedIn: epoch }), 'claimed');
  });

  it('the answer of the ledger is void after another loss, and nothing is written', async (t) => {
    const { claims, forget } = await open(t, lasting);
    const request = aClaim();
    const { epoch: ledgerCheckedIn } = await claims.noteLoss(bucketOfClaim(request));
    await forget();
    assert.deepEqual(await claims.claim({ ...request, ledgerCheckedIn }), { outcome: 'cold' });
    await warmUp(claims, request);
    expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'claimed');
  });

  it('an epoch that never was proves nothing', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    const ledgerCheckedIn = 'no epoch of this bucket' as BucketEpoch;
    expectOutcome(await claims.claim({ ...request, ledgerCheckedIn }), 'cold');
    await claims.noteLoss(bucketOfClaim(request));
    expectOutcome(await claims.claim({ ...request, ledgerCheckedIn }), 'cold');
  });

  it('a claim made while cold is as good as any other', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    const { epoch: ledgerCheckedIn } = await claims.noteLoss(bucketOfClaim(request));
    const checked = { ...request, ledgerCheckedIn };
    const owner = { ...request, ...expectOutcome(await claims.claim(checked), 'claimed') };
    expectOutcome(await claims.claim(request), 'in-flight');
    expectOutcome(await claims.claim(checked), 'in-flight');
    expectOutcome(await claims.claim({ ...checked, fingerprint: aFingerprint() }), 'reused');
    await claims.complete(owner);
    expectAnswered(await claims.claim(request), request);
  });
}

function expectPending(read: PendingRead): Extract<PendingRead, { outcome: 'pending' }> {
  assert.ok(read.outcome === 'pending', read.outcome);
  return read;
}

function describeReads(open: OpenClaims): void {
  it('a claimed payment reads as pending in every state, accepted when it was first claimed', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    const { partnerId, kind, shown, acceptedAt } = request;
    const pending = { outcome: 'pending', partnerId, kind, shown, acceptedAt };
    const readUnderWay = async () => {
      const { underWay, ...seen } = expectPending(await claims.read(request.txnId));
      assert.deepEqual(seen, pending);
      return underWay?.leaseLeftMs;
    };
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    const leftMs = (await readUnderWay())!;
    // A service whose clock is known to the second alone counts it by the earliest there may be.
    assert.ok(leftMs > 0 && leftMs <= 2 * lasting.leaseMs, `${leftMs} ms`);
    await claims.release(owner);
    assert.ok((await readUnderWay())! <= leftMs, 'a release does not say that nobody appends');
    const next = { ...request, acceptedAt: new Date() };
    const taken = { ...request, ...expectOutcome(await claims.claim(next), 'claimed') };
    assert.ok((await readUnderWay())! > 0);
    await claims.complete(taken);
    assert.equal(await readUnderWay(), undefined);
  });

  it('reads for how long the lease of who claimed last is over', async (t) => {
    const { claims, age } = await open(t, { ...lasting, leaseMs: hourMs });
    const request = aClaim();
    await warmUp(claims, request);
    expectOutcome(await claims.claim(request), 'claimed');
    await age(request.txnId, 3 * hourMs);
    const { underWay } = expectPending(await claims.read(request.txnId));
    assert.ok(underWay !== undefined && underWay.leaseLeftMs <= -2 * hourMs + 60_000);
  });

  it('what a read shows of the largest size comes back byte for byte', async (t) => {
    const { claims, another } = await open(t, lasting);
    const hard = '"\\😀é\u2028\r\n';
    const copies = Math.floor(shownBytesMax / Buffer.byteLength(hard));
    const rest = shownBytesMax % Buffer.byteLength(hard);
    const request = aClaim({ shown: hard.repeat(copies) + ' '.repeat(rest) });
    assert.equal(Buffer.byteLength(request.shown), shownBytesMax);
    await complete(claims, request);
    const read = await (await another()).read(request.txnId);
    assert.ok(read.outcome === 'pending' && read.shown === request.shown, 'other bytes are shown');
  });

  it('what a read shows ends long before its claim, unless it is renewed in time', async (t) => {
    const { claims, another, age } = await open(t, { ...lasting, shownMs: hourMs });
    const request = aClaim();
    await complete(claims, request);
    const { partnerId, kind, shown, acceptedAt } = request;
    const pending = { outcome: 'pending', partnerId, kind, acceptedAt };
    for (let renewed = 0; renewed < 2; renewed += 1) {
      await age(request.txnId, 0.8 * hourMs);
      await (await another()).renewShown([...Array.from({ length: 45 }, () => aClaim()), request]);
    }
    await age(request.txnId, 0.8 * hourMs);
    assert.deepEqual(await claims.read(request.txnId), { ...pending, shown });
    await age(request.txnId, 0.4 * hourMs);
    assert.deepEqual(await claims.read(request.txnId), pending);
    await claims.renewShown([request]);
    assert.deepEqual(await claims.read(request.txnId), pending);
    expectAnswered(await claims.claim(request), request);
  });

  it('a takeover shows again what was shown no longer, and a loser of the race shows nothing', async (t) => {
    const { claims, age } = await open(t, { ...lasting, shownMs: hourMs });
    const request = aClaim();
    await warmUp(claims, request);
    expectOutcome(await claims.claim(request), 'claimed');
    const shownOf = async () => {
      const read = await claims.read(request.txnId);
      return read.outcome === 'pending' ? read.shown : read.outcome;
    };
    await claims.claim({ ...request, fingerprint: aFingerprint(), shown: '{"of":"another"}' });
    await claims.claim({ ...request, shown: '{"of":"one too many"}' });
    assert.equal(await shownOf(), request.shown);
    await age(request.txnId, 2 * hourMs);
    assert.equal(await shownOf(), undefined);
    expectOutcome(await claims.claim(request), 'claimed');
    assert.equal(await shownOf(), request.shown);
  });

  it('an id that nobody claimed is unknown to a store that remembers', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    assert.deepEqual(await claims.read(request.txnId), { outcome: 'unknown' });
  });

  it('a store that forgot does not say unknown', async (t) => {
    const { claims, forget } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    await claims.claim(request);
    await forget();
    assert.deepEqual(await claims.read(request.txnId), { outcome: 'cold' });
    const { epoch } = await claims.noteLoss(bucketOfClaim(request));
    assert.deepEqual(await claims.read(request.txnId), { outcome: 'cold', epoch });
  });
}
