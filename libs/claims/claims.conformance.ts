import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { deriveTxnId, type IdempotencyKey, type PartnerId } from '@triplock/payments';
import { ClaimsUnavailableError, type ClaimRequest } from './claims.ts';
import {
  aClaim,
  aFingerprint,
  expectAnswered,
  complete,
  expectOutcome,
  hourMs,
  lasting,
  walked,
  warmUp,
  wholeWalk,
  type OpenClaims,
} from './test/claims-under-test.ts';
import { describeBounds, type Bounded } from './bounds.conformance.ts';
import { describeLeases } from './leases.conformance.ts';
import { describeLosses } from './losses.conformance.ts';
import { describeTrouble } from './trouble.conformance.ts';

/** What every claim store promises; each store runs this suite on the real thing. */
export function describeClaims(
  store: string,
  open: OpenClaims,
  bounded: Bounded = { shownBytes: 'bounded' },
): void {
  describe(`claims on ${store}`, () => {
    describeOwnership(open);
    describeAnswers(open);
    describeReleases(open);
    describeWalks(open);
    describeLeases(open);
    describeLosses(open);
    describeTrouble(open);
    describeBounds(open, bounded);
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

  it('claims that come at once are each decided for itself, two of one key too', async (t) => {
    const { claims } = await open(t, lasting);
    const [answered, released, atWork, twice, fresh] = some(5) as Five;
    for (const request of [released, atWork, twice, fresh]) await warmUp(claims, request);
    await complete(claims, answered);
    const { token } = expectOutcome(await claims.claim(released), 'claimed');
    await claims.release({ ...released, token });
    await claims.claim(atWork);
    const other = { ...answered, fingerprint: aFingerprint() };
    const asked = [twice, answered, twice, other, released, atWork, fresh, { ...fresh, shown: '' }];
    const outcomes = (await Promise.all(asked.map(claims.claim))).map(({ outcome }) => outcome);
    assert.deepEqual(
      outcomes.filter((_, at) => at !== 0 && at !== 2 && at < 6),
      [...['completed', 'reused', 'claimed', 'in-flight']],
    );
    for (const pair of [[outcomes[0], outcomes[2]], outcomes.slice(6)]) {
      assert.deepEqual(pair.sort(), ['claimed', 'in-flight']);
    }
  });

  it('two partners with one key do not meet', async (t) => {
    const { claims } = await open(t, lasting);
    for (const partnerId of ['acme', 'globex'] as PartnerId[]) {
      const txnId = deriveTxnId('payment', partnerId, 'order-1001' as IdempotencyKey);
      const request = aClaim({ txnId, partnerId });
      await warmUp(claims, request);
      const owner = { txnId, ...expectOutcome(await claims.claim(request), 'claimed') };
      await claims.complete(owner);
      const read = await claims.read(txnId);
      assert.equal(read.outcome === 'pending' && read.partnerId, partnerId);
    }
  });
}

function describeAnswers(open: OpenClaims): void {
  it('a completed claim gives what its first claim settled, every time, whoever asks again', async (t) => {
    const { claims, another } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const { token } = expectOutcome(await claims.claim(request), 'claimed');
    assert.equal(await claims.complete({ ...request, token }), 'completed');
    // A gateway of another release, which renders in a newer form.
    const later = { ...request, acceptedAt: new Date(), responseVersion: 4 };
    for (const way of [claims, await another()]) {
      expectAnswered(await way.claim(later), request);
    }
  });

  it('a takeover answers as the first claim would have, though its own form is newer', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const first = expectOutcome(await claims.claim(request), 'claimed');
    await claims.release({ ...request, ...first });
    const later = { ...request, acceptedAt: new Date(), responseVersion: 4 };
    const second = expectOutcome(await claims.claim(later), 'claimed');
    assert.deepEqual({ ...second, token: first.token }, first);
    await claims.complete({ ...request, ...second });
    expectAnswered(await claims.claim(later), request);
  });

  it('a claim takes at most 400 bytes for its day, however long its request is', async (t) => {
    const { claims, bytes, valueBytes = bytes } = await open(t, lasting);
    const sizes: number[] = [];
    const exact: number[] = [];
    for (const shown of ['{}', 'x'.repeat(45_000)]) {
      for (const recordKey of [undefined, aClaim().txnId]) {
        const request = aClaim({ shown, ...(recordKey !== undefined && { recordKey }) });
        await complete(claims, request);
        sizes.push(await bytes(request.txnId));
        exact.push(await valueBytes(request.txnId));
      }
    }
    assert.ok(Math.min(...sizes) > 100 && Math.max(...sizes) <= 400, sizes.join());
    assert.deepEqual(exact.slice(2), exact.slice(0, 2));
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
    await claims.complete({ ...request, ...second });
    expectOutcome(await claims.claim(other), 'reused');
    expectAnswered(await claims.claim(request), request);
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
    await claims.complete(owner);
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
    assert.equal(await claims.complete(owner), 'completed');
    assert.equal(await claims.complete(owner), 'completed');
  });

  it('nothing is completed or released that was never claimed', async (t) => {
    const { claims } = await open(t, lasting);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = expectOutcome(await claims.claim(request), 'claimed');
    const stranger = { ...aClaim(), token: owner.token };
    assert.equal(await claims.complete(stranger), 'lost');
    assert.equal(await claims.release(stranger), 'lost');
  });
}

type Five = [ClaimRequest, ClaimRequest, ClaimRequest, ClaimRequest, ClaimRequest];

const some = (count: number) => Array.from({ length: count }, () => aClaim());

function describeWalks(open: OpenClaims): void {
  it('a walk gives what every completed claim is, in steps, and no claim that is not completed or is over', async (t) => {
    const { claims, openWalk, age } = await open(t, lasting);
    const completed = some(40);
    await Promise.all(completed.map((request) => complete(claims, request)));
    const [inFlight, released, over] = [aClaim(), aClaim(), aClaim()];
    for (const request of [inFlight, released]) await warmUp(claims, request);
    expectOutcome(await claims.claim(inFlight), 'claimed');
    const { token } = expectOutcome(await claims.claim(released), 'claimed');
    await claims.release({ ...released, token });
    await complete(claims, over);
    await age(over.txnId, 25 * hourMs);
    const walk = await openWalk();
    const { claims: found, steps } = await wholeWalk(walk, { limit: 10 });
    assert.deepEqual(found, walked(completed));
    assert.ok(Math.max(...steps) < completed.length, `${steps.join(', ')} in a step`);
    assert.deepEqual((await wholeWalk(walk, { limit: 1_000 })).claims, walked(completed));
  });

  it('claims that come while others are walked over take none away, and another reader goes on by the cursor', async (t) => {
    const { claims, openWalk } = await open(t, lasting);
    const before = some(40);
    await Promise.all(before.map((request) => complete(claims, request)));
    const [one, other] = [await openWalk(), await openWalk()];
    let turn = 0;
    const inTurns = {
      ...one,
      walk: (step: Parameters<typeof one.walk>[0]) => {
        turn += 1;
        return (turn % 2 === 0 ? one : other).walk(step);
      },
    };
    const later = some(5);
    const between = async () => {
      const request = later.pop();
      if (request !== undefined) await complete(claims, request);
    };
    const { claims: found } = await wholeWalk(inTurns, { limit: 10, between });
    const ids = new Set(found.map(({ txnId }) => txnId));
    assert.deepEqual(
      before.filter(({ txnId }) => !ids.has(txnId)),
      [],
    );
  });

  it('a walk says where the record of a refund is, and can do no more', async (t) => {
    const { claims, openWalk } = await open(t, lasting);
    const refund = aClaim({ kind: 'refund', recordKey: aClaim().txnId });
    await complete(claims, refund);
    const walk = await openWalk();
    assert.deepEqual((await wholeWalk(walk, { limit: 1_000 })).claims, walked([refund]));
    assert.deepEqual(Object.keys(walk).sort(), ['close', 'walk']);
  });

  it('a store that forgot has nothing to walk over, and one that is away is no empty one', async (t) => {
    const { claims, openWalk, forget, relay } = await open(t, { ...lasting, answerTimeoutMs: 500 });
    await complete(claims, aClaim());
    const walk = await openWalk();
    await forget();
    assert.deepEqual((await wholeWalk(walk, { limit: 1_000 })).claims, []);
    await relay.cut();
    await assert.rejects(walk.walk({ limit: 20 }), ClaimsUnavailableError);
  });
}
