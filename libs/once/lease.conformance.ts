import assert from 'node:assert/strict';
import { it, type TestContext } from 'node:test';
import { eventually } from '@triplock/testing';
import { once, type EffectContext, type OnceStore } from './once.ts';
import { aStep, counting, hourMs, type OpenOnce } from './test/once-under-test.ts';

// More than any store is unsure about the time.
const minuteMs = 60_000;

/** How long the one at work is left alone, and what becomes of one that was too slow. */
export function describeLeaseOfEffect(open: OpenOnce): void {
  describeTakeover(open);
  describeRenewal(open);
  describeClocks(open);
}

function describeTakeover(open: OpenOnce): void {
  it('a key whose lease is over is taken over, and only the new owner’s result stays', async (t) => {
    const { store, another, age } = await open(t);
    const other = await another();
    const step = aStep();
    const fences: bigint[] = [];
    const late = await once(store, step, async ({ fence }) => {
      fences.push(fence);
      await age(step, step.leaseMs - minuteMs);
      assert.equal((await once(other, step, counting().effect)).outcome, 'in-flight');
      await age(step, 2 * minuteMs);
      const taken = await once(other, step, async (newer) => {
        fences.push(newer.fence);
        return 'newer';
      });
      assert.deepEqual(taken, { outcome: 'done', result: 'newer' });
      return 'late';
    });
    assert.deepEqual(late, { outcome: 'taken-over' });
    assert.ok(fences[1]! > fences[0]!, fences.join());
    const replayed = await once(store, step, counting().effect);
    assert.deepEqual(replayed, { outcome: 'replayed', result: 'newer' });
  });

  it('of many for a lease or a life that is over one takes the key over', async (t) => {
    const { store, another, age } = await open(t);
    const ways = [store, await another()];
    for (const overMs of [2 * hourMs, 25 * hourMs]) {
      const step = aStep();
      await store.start(step);
      await age(step, overMs);
      const asked = Array.from({ length: 20 }, (_, each) => ways[each % 2]!.start(step));
      const outcomes = (await Promise.all(asked)).map(({ outcome }) => outcome);
      assert.equal(outcomes.filter((each) => each === 'started').length, 1);
      assert.equal(outcomes.filter((each) => each === 'in-flight').length, 19);
    }
  });

  it('whoever is at work later has the larger fence, however many ask at once', async (t) => {
    const { store, another } = await open(t);
    const ways = [store, await another()];
    const step = aStep();
    const inOrder: bigint[] = [];
    const workOnce = async (way: OnceStore) => {
      const started = await way.start(step);
      if (started.outcome !== 'started') return;
      inOrder.push(started.fence);
      const owner = { ...step, token: started.token };
      assert.equal(await way.finish(owner, { state: 'released' }), 'finished');
    };
    for (let round = 0; round < 5; round += 1) {
      await Promise.all(Array.from({ length: 10 }, (_, each) => workOnce(ways[each % 2]!)));
    }
    assert.ok(inOrder.length >= 5, `${inOrder.length} were at work`);
    for (const [nth, fence] of inOrder.entries()) {
      assert.ok(nth === 0 || fence > inOrder[nth - 1]!, inOrder.join());
    }
  });

  it('a late owner can neither renew, finish nor release what another one took over', async (t) => {
    const { store, age } = await open(t);
    const step = aStep();
    const late = await store.start(step);
    assert.ok(late.outcome === 'started');
    await age(step, 2 * step.leaseMs);
    const newer = await store.start(step);
    assert.ok(newer.outcome === 'started');
    const owner = { ...step, token: late.token };
    assert.equal(await store.renew(owner, step.leaseMs), 'lost');
    assert.equal(await store.finish(owner, { state: 'completed', result: '1' }), 'lost');
    assert.equal(await store.finish(owner, { state: 'released' }), 'lost');
    const finish = () =>
      store.finish({ ...step, token: newer.token }, { state: 'completed', result: '2' });
    assert.equal(await finish(), 'finished');
    assert.equal(await finish(), 'finished', 'repeated, it returns the same');
    const done = { ...step, token: newer.token };
    assert.equal(await store.renew(done, step.leaseMs), 'lost');
    assert.equal(await store.finish(done, { state: 'released' }), 'lost');
    assert.equal(await store.finish(done, { state: 'failed', result: '3' }), 'lost');
    assert.deepEqual(resultOf(await store.start(step)), { outcome: 'completed', result: '2' });
  });

  it('a key that was taken over is kept for no longer than from its first start', async (t) => {
    const { store, age } = await open(t);
    const step = aStep();
    for (let start = 0; start < 2; start += 1) {
      assert.equal((await store.start(step)).outcome, 'started');
      await age(step, 13 * hourMs);
    }
    const other = { ...step, fingerprint: 'another request' };
    assert.equal((await store.start(other)).outcome, 'started');
  });

  it('an owner whose lease is over finishes as long as nobody took over', async (t) => {
    const { store, age } = await open(t);
    const step = aStep();
    const done = await once(store, step, () => age(step, 2 * step.leaseMs));
    assert.equal(done.outcome, 'done');
    assert.equal((await once(store, step, counting().effect)).outcome, 'replayed');
  });
}

function describeRenewal(open: OpenOnce): void {
  it('a lease is renewed for as long as the effect takes', async (t) => {
    const { store, another, age } = await open(t);
    const other = await another();
    const step = aStep();
    const pass = mockedTime(t);
    const { outcome } = await once(store, step, async () => {
      await age(step, step.leaseMs / 2);
      const left = async () => {
        const probed = await other.start(step);
        assert.ok(probed.outcome === 'in-flight');
        return probed.leaseLeftMs;
      };
      assert.ok((await left()) < step.leaseMs / 2 + minuteMs);
      pass(step.leaseMs / 3);
      await eventually(async () => (await left()) > step.leaseMs - minuteMs);
    });
    assert.equal(outcome, 'done');
  });

  it('it is renewed no more once the effect is over, however it ended', async (t) => {
    const { store } = await open(t);
    let renewals = 0;
    const renew: OnceStore['renew'] = (...asked) => ((renewals += 1), store.renew(...asked));
    const pass = mockedTime(t);
    const [done, failed] = [aStep(), aStep()];
    await once({ ...store, renew }, done, counting().effect);
    await assert.rejects(once({ ...store, renew }, failed, () => Promise.reject(new Error('no'))));
    pass(10 * done.leaseMs);
    assert.equal(renewals, 0);
  });

  it('losing it aborts the signal that the effect was given', async (t) => {
    const { store, another, age } = await open(t);
    const other = await another();
    const step = aStep();
    const pass = mockedTime(t);
    const late = await once(store, step, async ({ signal }: EffectContext) => {
      const aborted = Promise.withResolvers<void>();
      signal.addEventListener('abort', () => aborted.resolve());
      await age(step, 2 * step.leaseMs);
      assert.equal((await other.start(step)).outcome, 'started');
      pass(step.leaseMs / 3);
      await aborted.promise;
    });
    assert.deepEqual(late, { outcome: 'taken-over' });
  });
}

function describeClocks(open: OpenOnce): void {
  it('a caller whose clock is a day off sees the same leases and lives', async (t) => {
    const { store, another, age } = await open(t);
    for (const aheadMs of [25 * hourMs, -25 * hourMs]) {
      const [ours, theirs] = [aStep(), aStep()];
      assert.equal((await store.start(ours)).outcome, 'started');
      t.mock.timers.enable({ apis: ['Date'], now: Date.now() + aheadMs });
      const skewed = await another();
      const seen = await skewed.start(ours);
      assert.ok(seen.outcome === 'in-flight');
      assert.ok(Math.abs(seen.leaseLeftMs - hourMs) < minuteMs, `${seen.leaseLeftMs} ms left`);
      assert.equal((await skewed.start(theirs)).outcome, 'started');
      t.mock.timers.reset();
      assert.equal((await store.start(theirs)).outcome, 'in-flight');
      await age(theirs, 2 * theirs.leaseMs);
      assert.equal((await store.start(theirs)).outcome, 'started');
    }
  });
}

/** Has intervals that are set from now on wait to be told how much time has passed. */
function mockedTime(t: TestContext): (ms: number) => void {
  t.mock.timers.enable({ apis: ['setInterval'] });
  return (ms) => t.mock.timers.tick(ms);
}

/** A start without what is a store's own. */
function resultOf({ outcome, ...rest }: { outcome: string; result?: string }) {
  return { outcome, result: rest.result };
}
