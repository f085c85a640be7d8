import assert from 'node:assert/strict';
import { it, type TestContext } from 'node:test';
import { eventually } from '@triplock/testing';
import {
  ClaimsUnavailableError,
  type ClaimOutcome,
  type ClaimRequest,
  type Claims,
} from './claims.ts';
import {
  aClaim,
  expectOutcome,
  lasting,
  warmUp,
  type OpenClaims,
} from './test/claims-under-test.ts';

// A request is answered within 3 s, and 0.5 s of them are for authenticating.
const patienceMs = 2_500;
const hurried = { ...lasting, answerTimeoutMs: 1_500 };

/** What a caller gets from a store that is away, slow, or loses its answers. */
export function describeTrouble(open: OpenClaims): void {
  it('a store that stands still makes every step unknown in time, and goes on afterwards', async (t) => {
    const { claims, relay } = await open(t, hurried);
    const request = aClaim();
    await warmUp(claims, request);
    const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
    relay.freeze();
    const steps = [
      ...Array.from({ length: 50 }, () => claims.claim(request)),
      claims.complete(owner),
      claims.release(owner),
      claims.read(request.txnId),
      claims.noteLoss(3),
      claims.ping(),
    ];
    const waits = await Promise.all(steps.map(rejectionMs));
    assert.ok(Math.max(...waits) < patienceMs, `slowest ${Math.max(...waits)} ms`);
    await relay.restore();
    await eventually(() => claims.ping().then(() => true));
    assert.equal(await eventually(() => claims.complete(owner)), 'completed');
  });

  it('a store that is gone makes claims fail in time, and they work again when it is back', async (t) => {
    const { claims, relay } = await open(t, hurried);
    const request = aClaim();
    await warmUp(claims, request);
    await relay.cut();
    assert.ok((await rejectionMs(claims.claim(request))) < patienceMs);
    assert.ok((await rejectionMs(claims.ping())) < patienceMs);
    await relay.restore();
    expectOutcome(await eventually(() => claims.claim(request)), 'claimed');
  });

  for (const after of [0, 1, 2]) {
    it(`answer ${after + 1} of the store being lost makes no second owner, and leaves one`, async (t) => {
      const { claims, another, relay } = await open(t, hurried);
      const request = aClaim();
      await warmUp(claims, request);
      const { lost } = relay.loseReply({ after });
      const outcomes = await claimUntil(claims, request, lost);
      const owners = () => outcomes.filter((each) => each?.outcome === 'claimed').length;
      const other = await another();
      // A claim whose answer nobody got counts as the one at work until the store released it.
      await eventually(async () => {
        outcomes.push(await other.claim(request));
        return owners() > 0;
      });
      expectOutcome(await other.claim(request), 'in-flight');
      assert.equal(owners(), 1);
    });
  }
  describeLate(open);
}

/** What reached the store although its answer was lost. */
function describeLate(open: OpenClaims): void {
  it('a claim that the store made after all is released long before its lease is over', async (t) => {
    // A store may answer several times before it is asked to write.
    const made = await Promise.all(
      [0, 1, 2, 3, 4, 5, 6].map((after) => claimWithoutAnswer({ t, open }, after)),
    );
    assert.ok(made.includes('in-flight'), `no claim was made without an answer: ${made.join()}`);
  });

  it('a release that did not reach the store is made when it is back', async (t) => {
    const { claims, another, relay } = await open(t, hurried);
    const other = await another();
    const freeze = async () => relay.freeze();
    const cut = async () => {
      await relay.cut();
      // Connections that do not know yet that they broke fail otherwise than new ones.
      await rejectionMs(claims.ping());
    };
    for (const away of [freeze, cut]) {
      const request = aClaim();
      await warmUp(claims, request);
      const owner = { ...request, ...expectOutcome(await claims.claim(request), 'claimed') };
      await away();
      await rejectionMs(claims.release(owner));
      expectOutcome(await other.claim(request), 'in-flight');
      await relay.restore();
      await eventually(async () => (await other.claim(request)).outcome === 'claimed');
      await eventually(() => claims.ping().then(() => true));
    }
  });
}

/** What another one saw of a claim whose answer nobody got, which then must be free. */
async function claimWithoutAnswer(
  { t, open }: { t: TestContext; open: OpenClaims },
  after: number,
) {
  const { claims, another, relay } = await open(t, hurried);
  const other = await another();
  const request = aClaim();
  await warmUp(claims, request);
  relay.silence({ after });
  const answered = await claims.claim(request).then(
    () => true,
    () => false,
  );
  if (answered) return 'answered';
  const seen = await other.read(request.txnId);
  if (seen.outcome === 'unknown') return 'never made';
  expectOutcome(await other.claim(request), 'in-flight');
  await relay.restore();
  await eventually(async () => (await other.claim(request)).outcome === 'claimed');
  return 'in-flight';
}

/** Asks again and again until the reply is lost and one came after it; `undefined` is unknown. */
async function claimUntil(claims: Claims, request: ClaimRequest, lost: Promise<void>) {
  const outcomes: (ClaimOutcome | undefined)[] = [];
  let over = false;
  void lost.then(() => (over = true));
  await eventually(async () => {
    const isLast = over;
    const outcome = await claims.claim(request).catch((error: unknown) => {
      assert.ok(error instanceof ClaimsUnavailableError, String(error));
    });
    outcomes.push(outcome ?? undefined);
    return isLast && outcome !== undefined;
  });
  return outcomes;
}

/** How long the step took to reject; it must, and with the error that means "unknown". */
async function rejectionMs(step: Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await assert.rejects(step, ClaimsUnavailableError);
  return performance.now() - begin;
}
