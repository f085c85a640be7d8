import assert from 'node:assert/strict';
import { it } from 'node:test';
import {
  aClaim,
  aFingerprint,
  expectAnswered,
  bucketOfClaim,
  expectOutcome,
  hourMs,
  lasting,
  walked,
  warmUp,
  wholeWalk,
  type OpenClaims,
} from './test/claims-under-test.ts';

// More than any store is unsure about the time.
const minuteMs = 60_000;

/** What ends by itself, when, and by whose clock. */
export function describeLeases(open: OpenClaims): void {
  describeLeaseEnds(open);
  describeLife(open);
  describeClocks(open);
}

function describeLeaseEnds(open: OpenClaims): void {
  it('a claim in flight shows how long its lease still is', async (t) => {
    const { claims, age } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    await claims.claim(request);
    await age(request.txnId, lasting.leaseMs / 2);
    const { leaseLeftMs } = expectOutcome(await claims.claim(request), 'in-flight');
    const offBy = Math.abs(leaseLeftMs - lasting.leaseMs / 2);
    assert.ok(offBy < minuteMs, `${leaseLeftMs} ms left`);
  });

  it('a claim whose lease is over goes to a new owner, with the first time of acceptance', async (t) => {
    const { claims, age } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const first = expectOutcome(await claims.claim(request), 'claimed');
    await age(request.txnId, lasting.leaseMs - minuteMs);
    expectOutcome(await claims.claim(request), 'in-flight');
    await age(request.txnId, 2 * minuteMs);
    const later = { ...request, acceptedAt: new Date() };
    const second = expectOutcome(await claims.claim(later), 'claimed');
    assert.notEqual(second.token, first.token);
    assert.deepEqual(second.acceptedAt, request.acceptedAt);
    expectOutcome(await claims.claim(request), 'in-flight');
  });

  it('a lease of a moment ends by the passing of time', async (t) => {
    const { claims } = await open(t, { ...lasting, leaseMs: 1 });
    const request = aClaim();
    await warmUp(claims, request);
    expectOutcome(await claims.claim(request), 'claimed');
    await t.waitFor(async () => expectOutcome(await claims.claim(request), 'claimed'), {
      timeout: 5_000,
    });
  });

  it('of many requests for a lease that is over one gets the claim', async (t) => {
    const { claims, another, age } = await open(t, lasting);
    const ways = [claims, await another()];
    const request = aClaim();
    await warmUp(claims, request);
    await claims.claim(request);
    await age(request.txnId, 2 * lasting.leaseMs);
    const asked = Array.from({ length: 40 }, (_, each) => ways[each % 2]!.claim(request));
    const outcomes = await Promise.all(asked);
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'claimed').length, 1);
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'in-flight').length, 39);
  });

  it('a late owner can neither complete nor release what another one took over', async (t) => {
    const { claims, another, age } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const late = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    await age(request.txnId, 2 * lasting.leaseMs);
    const other = await another();
    const owner = { ...request, ...expectOutcome(await other.claim(request), 'claimed') };
    assert.equal(await claims.complete(late), 'lost');
    assert.equal(await claims.release(late), 'lost');
    assert.equal(await other.complete(owner), 'completed');
    assert.equal(await claims.complete(late), 'lost');
    expectAnswered(await claims.claim(request), request);
  });

  it('of an owner that answers late and one that takes over at that moment one is lost', async (t) => {
    const { claims, another, age } = await open(t, lasting);
    const other = await another();
    const race = async () => {
      const request = aClaim();
      await warmUp(claims, request);
      const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
      await age(request.txnId, 2 * lasting.leaseMs);
      const both = [claims.complete(owner), other.claim(request)] as const;
      const [completed, { outcome }] = await Promise.all(both);
      return `${completed}, ${outcome}`;
    };
    const ends = new Set(await Promise.all(Array.from({ length: 40 }, race)));
    for (const either of ['completed, completed', 'lost, claimed']) ends.delete(either);
    assert.deepEqual([...ends], []);
  });

  it('an owner whose lease is over completes as long as nobody took over', async (t) => {
    const { claims, age } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    await age(request.txnId, 2 * lasting.leaseMs);
    assert.equal(await claims.complete(owner), 'completed');
    expectAnswered(await claims.claim(request), request);
  });
}

function describeLife(open: OpenClaims): void {
  it('a key is known for a day and no longer, and the key is then free for any request', async (t) => {
    const { claims, age, openWalk } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    await claims.complete(owner);
    await age(request.txnId, 24 * hourMs - minuteMs);
    expectOutcome(await claims.claim(request), 'completed');
    await age(request.txnId, 2 * minuteMs);
    assert.deepEqual(await claims.read(request.txnId), { outcome: 'unknown' });
    const other = {
      ...request,
      fingerprint: aFingerprint(),
      acceptedAt: new Date(),
      shown: '{"of":"another life"}',
      recordKey: aClaim().txnId,
    };
    const { acceptedAt, token } = expectOutcome(await claims.claim(other), 'claimed');
    assert.deepEqual(acceptedAt, other.acceptedAt);
    const read = await claims.read(request.txnId);
    assert.equal(read.outcome === 'pending' && read.shown, other.shown);
    expectOutcome(await claims.claim(request), 'reused');
    expectOutcome(await claims.claim(other), 'in-flight');
    assert.equal(await claims.complete({ ...other, token }), 'completed');
    expectAnswered(await claims.claim(other), other);
    const { claims: found } = await wholeWalk(await openWalk(), { limit: 1_000 });
    assert.deepEqual(found, walked([other]));
  });

  it('an owner whose claim was forgotten can neither complete nor release it', async (t) => {
    const { claims, age } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    await age(request.txnId, 25 * hourMs);
    assert.equal(await claims.complete(owner), 'lost');
    assert.equal(await claims.release(owner), 'lost');
    expectOutcome(await claims.claim(request), 'claimed');
  });

  it('a key is known for a day from when it was answered, however late that was', async (t) => {
    const { claims, age } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    await age(request.txnId, 24 * hourMs - minuteMs);
    await claims.complete(owner);
    await age(request.txnId, 24 * hourMs - minuteMs);
    expectAnswered(await claims.claim(request), request);
    assert.equal((await claims.read(request.txnId)).outcome, 'pending');
    await age(request.txnId, 2 * minuteMs);
    assert.deepEqual(await claims.read(request.txnId), { outcome: 'unknown' });
  });

  it('a claim that is taken over lives for a day from then, with its first time of acceptance', async (t) => {
    const { claims, age } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    expectOutcome(await claims.claim(request), 'claimed');
    const later = { ...request, acceptedAt: new Date() };
    for (let takeover = 0; takeover < 3; takeover += 1) {
      await age(request.txnId, 24 * hourMs - minuteMs);
      const { acceptedAt } = expectOutcome(await claims.claim(later), 'claimed');
      assert.deepEqual(acceptedAt, request.acceptedAt);
    }
    await age(request.txnId, 24 * hourMs - minuteMs);
    assert.equal((await claims.read(request.txnId)).outcome, 'pending');
    await age(request.txnId, 2 * minuteMs);
    const { acceptedAt } = expectOutcome(await claims.claim(later), 'claimed');
    assert.deepEqual(acceptedAt, later.acceptedAt);
  });

  it('a release and a reuse give a claim no longer life', async (t) => {
    const { claims, age } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    await age(request.txnId, 24 * hourMs - minuteMs);
    await claims.release(owner);
    expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'reused');
    await age(request.txnId, 2 * minuteMs);
    assert.deepEqual(await claims.read(request.txnId), { outcome: 'unknown' });
  });

  it('a forgotten claim is no reason to claim in a cold bucket', async (t) => {
    const { claims, age, forget } = await open(t, lasting);
    const request = aClaim();
    const epoch = await warmUp(claims, request);
    await forget();
    const { epoch: ledgerCheckedIn } = await claims.noteLoss(bucketOfClaim(request));
    assert.notEqual(ledgerCheckedIn, epoch);
    expectOutcome(await claims.claim({ ...request, ledgerCheckedIn }), 'claimed');
    expectOutcome(await claims.claim(request), 'in-flight');
    await age(request.txnId, 25 * hourMs);
    expectOutcome(await claims.claim(request), 'cold');
    assert.equal((await claims.read(request.txnId)).outcome, 'cold');
  });
}

function describeClocks(open: OpenClaims): void {
  for (const [who, aheadMs] of [
    ['ahead', 25 * hourMs],
    ['behind', -25 * hourMs],
  ] as const) {
    it(`a caller whose clock is a day ${who} sees the same leases and lives`, async (t) => {
      const { claims, another, age } = await open(t, lasting);
      const request = aClaim();
      await warmUp(claims, request);
      const { token } = expectOutcome(await claims.claim(request), 'claimed');
      t.mock.timers.enable({ apis: ['Date'], now: Date.now() + aheadMs });
      const skewed = await another();
      const { leaseLeftMs } = expectOutcome(await skewed.claim(request), 'in-flight');
      assert.ok(Math.abs(leaseLeftMs - lasting.leaseMs) < minuteMs, `${leaseLeftMs} ms left`);
      const theirs = aClaim();
      await warmUp(skewed, theirs);
      expectOutcome(await skewed.claim(theirs), 'claimed');
      t.mock.timers.reset();
      expectOutcome(await claims.claim(theirs), 'in-flight');
      await age(theirs.txnId, 2 * lasting.leaseMs);
      expectOutcome(await claims.claim(theirs), 'claimed');
      await claims.complete({ ...request, token });
      expectOutcome(await skewed.claim(request), 'completed');
    });
  }
}
