import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  aClaim,
  aFingerprint,
  anAnswer,
  brief,
  expectOutcome,
  lasting,
  warmUp,
  type OpenClaims,
} from './conformance.testing.ts';
import { describeMemory } from './memory.conformance.ts';

/** What every claim store promises; each store runs this suite on the real thing. */
export function describeClaims(store: string, open: OpenClaims): void {
  describe(`claims on ${store}`, () => {
    describeOwnership(open);
    describeReleases(open);
    describeLeases(open);
    describeMemory(open);
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

  it('of a hundred identical requests at once one gets the claim and the others wait', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const outcomes = await Promise.all(Array.from({ length: 100 }, () => claims.claim(request)));
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'claimed').length, 1);
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'in-flight').length, 99);
  });

  it('a claim in flight tells how long its lease still is', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    await claims.claim(request);
    const { leaseLeftMs } = expectOutcome(await claims.claim(request), 'in-flight');
    assert.ok(leaseLeftMs > 0 && leaseLeftMs <= lasting.leaseMs, `${leaseLeftMs} ms left`);
  });

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

  it('another request with the same key is told so in every state, and changes nothing', async (t) => {
    const { claims } = await open(t, brief);
    const request = aClaim();
    const other = { ...request, fingerprint: aFingerprint() };
    await warmUp(claims, request);
    const first = expectOutcome(await claims.claim(request), 'claimed');
    expectOutcome(await claims.claim(other), 'reused');
    await claims.release({ ...request, ...first });
    expectOutcome(await claims.claim(other), 'reused');
    const second = expectOutcome(await claims.claim(request), 'claimed');
    await claims.complete({ ...request, ...second }, anAnswer);
    expectOutcome(await claims.claim(other), 'reused');
    assert.deepEqual(expectOutcome(await claims.claim(request), 'completed').answer, anAnswer);
  });

  it('claims of different ids do not meet', async (t) => {
    const { claims } = await open(t, lasting);
    for (const request of [aClaim(), aClaim()]) {
      await warmUp(claims, request);
      expectOutcome(await claims.claim(request), 'claimed');
    }
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

  it('a claim that was completed can not be released', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    await claims.complete(owner, anAnswer);
    assert.equal(await claims.release(owner), 'lost');
    expectOutcome(await claims.claim(request), 'completed');
  });

  it('completing and releasing say the same when they are said again', async (t) => {
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

function describeLeases(open: OpenClaims): void {
  it('a claim whose lease is over goes to a new owner, with the first time of acceptance', async (t) => {
    const { claims } = await open(t, brief);
    const request = aClaim();
    await warmUp(claims, request);
    const first = expectOutcome(await claims.claim(request), 'claimed');
    const later = { ...request, acceptedAt: new Date() };
    const second = await t.waitFor(async () => {
      return expectOutcome(await claims.claim(later), 'claimed');
    });
    assert.notEqual(second.token, first.token);
    assert.deepEqual(second.acceptedAt, request.acceptedAt);
  });

  it('a late owner can neither complete nor release what another one took over', async (t) => {
    const { claims } = await open(t, brief);
    const request = aClaim();
    await warmUp(claims, request);
    const late = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    const owner = await t.waitFor(async () => {
      return { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    });
    assert.equal(await claims.complete(late, { ...anAnswer, status: 500 }), 'lost');
    assert.equal(await claims.release(late), 'lost');
    assert.equal(await claims.complete(owner, anAnswer), 'completed');
    assert.deepEqual(expectOutcome(await claims.claim(request), 'completed').answer, anAnswer);
  });

  it('an owner whose lease is over completes as long as nobody took over', async (t) => {
    const { claims } = await open(t, brief);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    assert.equal(await claims.complete(owner, anAnswer), 'completed');
  });

  it('a claim is forgotten its life after the first claim, whoever took it over since', async (t) => {
    const { claims } = await open(t, { leaseMs: 1, lifeMs: 400 });
    const request = aClaim();
    await warmUp(claims, request);
    expectOutcome(await claims.claim(request), 'claimed');
    // Taken over again and again: were the life extended, the first time would stay for ever.
    const later = { ...request, acceptedAt: new Date() };
    await t.waitFor(
      async () => {
        const { acceptedAt } = expectOutcome(await claims.claim(later), 'claimed');
        assert.deepEqual(acceptedAt, later.acceptedAt);
      },
      { timeout: 5_000 },
    );
  });
}
