import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { deriveTxnId, type IdempotencyKey, type PartnerId } from '@triplock/payments';
import { answerBytesMax } from './claims.ts';
import {
  aClaim,
  aFingerprint,
  anAnswer,
  expectOutcome,
  lasting,
  warmUp,
  type OpenClaims,
} from './test/claims-under-test.ts';
import { describeLeases } from './leases.conformance.ts';
import { describeLosses } from './losses.conformance.ts';
import { describeTrouble } from './trouble.conformance.ts';

/** What every claim store promises; each store runs this suite on the real thing. */
export function describeClaims(store: string, open: OpenClaims): void {
  describe(`claims on ${store}`, () => {
    describeOwnership(open);
    describeAnswers(open);
    describeReleases(open);
    describeLeases(open);
    describeLosses(open);
    describeTrouble(open);
  });
}

function describeOwnership(open: OpenClaims): void {
  it('a first request gets the claim and keeps the time it was accepted at', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const claimed = expectOutcome(await claims.claim(request), 'claimed');
    assert.deepEqual(claimed.acceptedAt, request.acceptedAt);
  });

  it('of a hundred identical requests at once by two ways one gets the claim, the others wait', async (t) => {
    const { claims, another } = await open(t, lasting);
    const ways = [claims, await another()];
    const request = aClaim();
    await warmUp(claims, request);
    const asked = Array.from({ length: 100 }, (_, each) => ways[each % 2]!.claim(request));
    const outcomes = await Promise.all(asked);
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'claimed').length, 1);
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'in-flight').length, 99);
  });

  it('of many bodies racing for one key one gets the claim and the others learn that it is reused', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const bodies = Array.from({ length: 20 }, () => ({ ...request, fingerprint: aFingerprint() }));
    const outcomes = await Promise.all(bodies.map((body) => claims.claim(body)));
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'claimed').length, 1);
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'reused').length, 19);
  });

  it('claims of different ids do not meet', async (t) => {
    const { claims } = await open(t, lasting);
    for (const request of [aClaim(), aClaim()]) {
      await warmUp(claims, request);
      expectOutcome(await claims.claim(request), 'claimed');
    }
  });

  it('two partners with one key do not meet', async (t) => {
    const { claims } = await open(t, lasting);
    for (const partnerId of ['acme', 'globex'] as PartnerId[]) {
      const txnId = deriveTxnId('payment', partnerId, 'order-1001' as IdempotencyKey);
      const request = aClaim({ txnId, partnerId });
      await warmUp(claims, request);
      const owner = { txnId, ...expectOutcome(await claims.claim(request), 'claimed') };
      await claims.complete(owner, { ...anAnswer, body: partnerId });
      assert.equal(expectOutcome(await claims.claim(request), 'completed').answer.body, partnerId);
      const read = await claims.read(txnId);
      assert.equal(read.outcome === 'pending' && read.partnerId, partnerId);
    }
  });
}

function describeAnswers(open: OpenClaims): void {
  it('a completed claim gives the stored answer byte for byte, every time', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const { token } = expectOutcome(await claims.claim(request), 'claimed');
    assert.equal(await claims.complete({ ...request, token }, anAnswer), 'completed');
    for (let retry = 0; retry < 2; retry += 1) {
      assert.deepEqual(expectOutcome(await claims.claim(request), 'completed').answer, anAnswer);
    }
  });

  it('an answer of the largest size comes back byte for byte', async (t) => {
    const { claims, another } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    const hard = '"\\😀é\u2028\r\n';
    const copies = Math.floor(answerBytesMax / Buffer.byteLength(hard));
    const rest = answerBytesMax % Buffer.byteLength(hard);
    const answer = { ...anAnswer, body: hard.repeat(copies) + ' '.repeat(rest) };
    assert.equal(Buffer.byteLength(answer.body), answerBytesMax);
    assert.equal(await claims.complete(owner, answer), 'completed');
    const kept = expectOutcome(await (await another()).claim(request), 'completed').answer;
    assert.ok(kept.body === answer.body, 'the stored body is another one');
  });

  it('another request with the same key is refused as a reuse in every state, and changes nothing', async (t) => {
    const { claims, age } = await open(t, lasting);
    const request = aClaim();
    const other = { ...request, fingerprint: aFingerprint() };
    await warmUp(claims, request);
    const first = expectOutcome(await claims.claim(request), 'claimed');
    // This is checked before whether somebody is at work.
    expectOutcome(await claims.claim(other), 'reused');
    await age(request.txnId, 2 * lasting.leaseMs);
    expectOutcome(await claims.claim(other), 'reused');
    await claims.release({ ...request, ...first });
    expectOutcome(await claims.claim(other), 'reused');
    const second = expectOutcome(await claims.claim(request), 'claimed');
    await claims.complete({ ...request, ...second }, anAnswer);
    expectOutcome(await claims.claim(other), 'reused');
    assert.deepEqual(expectOutcome(await claims.claim(request), 'completed').answer, anAnswer);
  });
}

function describeReleases(open: OpenClaims): void {
  it('a released claim goes to the next one with the same request, at once', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const first = expectOutcome(await claims.claim(request), 'claimed');
    assert.equal(await claims.release({ ...request, ...first }), 'released');
    const later = { ...request, acceptedAt: new Date(request.acceptedAt.getTime() + 5_000) };
    const second = expectOutcome(await claims.claim(later), 'claimed');
    assert.notEqual(second.token, first.token);
    assert.deepEqual(second.acceptedAt, request.acceptedAt);
  });

  it('of many requests for a released claim one gets it', async (t) => {
    const { claims, another } = await open(t, lasting);
    const ways = [claims, await another()];
    const request = aClaim();
    await warmUp(claims, request);
    const first = expectOutcome(await claims.claim(request), 'claimed');
    await claims.release({ ...request, ...first });
    const asked = Array.from({ length: 40 }, (_, each) => ways[each % 2]!.claim(request));
    const outcomes = await Promise.all(asked);
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'claimed').length, 1);
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'in-flight').length, 39);
  });

  it('a claim that was completed can not be released', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    await claims.complete(owner, anAnswer);
    assert.equal(await claims.release(owner), 'lost');
    expectOutcome(await claims.claim(request), 'completed');
  });

  it('completing and releasing, repeated, return the same', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    assert.equal(await claims.release(owner), 'released');
    assert.equal(await claims.release(owner), 'released');
    assert.equal(await claims.complete(owner, anAnswer), 'completed');
    assert.equal(await claims.complete(owner, anAnswer), 'completed');
  });

  it('nothing is completed or released that was never claimed', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = expectOutcome(await claims.claim(request), 'claimed');
    const stranger = { ...aClaim(), token: owner.token };
    assert.equal(await claims.complete(stranger, anAnswer), 'lost');
    assert.equal(await claims.release(stranger), 'lost');
  });
}
