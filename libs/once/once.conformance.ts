import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@triplock/testing';
import { EffectFailedError, once, resultBytesMax, type EffectContext } from './once.ts';
import { describeLeaseOfEffect } from './lease.conformance.ts';
import { aStep, counting, hourMs, type OpenOnce } from './test/once-under-test.ts';

/** What `once` promises on every store; each store runs this suite on the real thing. */
export function describeOnce(name: string, open: OpenOnce): void {
  describe(`once on ${name}`, () => {
    describeEffects(open);
    describeFailures(open);
    describeLeaseOfEffect(open);
    describeAbsence(open);
  });
}

function describeEffects(open: OpenOnce): void {
  it('an effect happens once, and its result is replayed as it was given the first time', async (t) => {
    const { store, another } = await open(t);
    const step = aStep();
    const { effect, runs } = counting();
    const result = { run: 1, at: '1970-01-01T00:00:00.000Z', text: '"\\😀é\u2028\r\n' };
    assert.deepEqual(await once(store, step, effect), { outcome: 'done', result });
    // The second one may fill a cache that the third one meets.
    for (let repeat = 0; repeat < 3; repeat += 1) {
      assert.deepEqual(await once(store, step, effect), { outcome: 'replayed', result });
    }
    assert.deepEqual(await once(await another(), step, effect), { outcome: 'replayed', result });
    assert.equal(runs(), 1);
  });

  it('of many at once by two ways one happens, and the others learn that it is at work', async (t) => {
    const { store, another } = await open(t);
    const ways = [store, await another()];
    const step = aStep();
    const gate = Promise.withResolvers<void>();
    const { effect, runs } = counting();
    const outcomes: string[] = [];
    const held = async () => {
      await gate.promise;
      return effect();
    };
    const asked = Array.from({ length: 20 }, async (_, each) => {
      outcomes.push((await once(ways[each % 2]!, step, held)).outcome);
    });
    await eventually(() => Promise.resolve(outcomes.length === 19));
    assert.deepEqual(new Set(outcomes), new Set(['in-flight']));
    gate.resolve();
    await Promise.all(asked);
    assert.equal(outcomes[19], 'done');
    assert.equal(runs(), 1);
  });

  it('a key that belongs to another request is refused in every state, and changes nothing', async (t) => {
    const { store } = await open(t);
    const step = aStep();
    const other = { ...step, fingerprint: 'another request' };
    const { effect, runs } = counting();
    await once(store, step, async () => {
      assert.deepEqual(await once(store, other, effect), { outcome: 'reused' });
    });
    const replayed = { outcome: 'replayed', result: null };
    for (let repeat = 0; repeat < 2; repeat += 1) {
      assert.deepEqual(await once(store, step, effect), replayed);
      assert.deepEqual(await once(store, other, effect), { outcome: 'reused' });
    }
    assert.equal(runs(), 0);
  });

  it('one key in two scopes is two keys, wherever the scope ends', async (t) => {
    const { store } = await open(t);
    const { scope, ...step } = aStep();
    for (const [inScope, key] of [
      [`${scope}:a`, 'b'],
      [scope, 'a:b'],
      [`${scope}#a`, 'b'],
      [scope, 'a#b'],
    ] as const) {
      const { outcome } = await once(store, { ...step, scope: inScope, key }, counting().effect);
      assert.equal(outcome, 'done');
    }
  });

  it('a key is forgotten when it was kept long enough, and its next fence is larger', async (t) => {
    const { store, age } = await open(t);
    const step = aStep();
    const { effect } = counting();
    const fences: bigint[] = [];
    const fenced = async ({ fence }: EffectContext) => (fences.push(fence), effect());
    await once(store, step, fenced);
    assert.equal((await once(store, step, fenced)).outcome, 'replayed');
    await age(step, 23 * hourMs);
    assert.equal((await once(store, step, fenced)).outcome, 'replayed');
    await age(step, 2 * hourMs);
    const other = { ...step, fingerprint: 'another request' };
    assert.equal((await once(store, other, fenced)).outcome, 'done');
    assert.ok(fences[1]! > fences[0]!, fences.join());
  });

  it('a key that would be forgotten within its lease is refused', async (t) => {
    const { store } = await open(t);
    const step = { ...aStep(), keepMs: 1_000, leaseMs: 1_000 };
    await assert.rejects(once(store, step, counting().effect), RangeError);
  });
}

/** How an effect may fail: by its promise, or before it has made one. */
const waysToFail = [
  (error: Error) => Promise.reject(error),
  (error: Error) => {
    throw error;
  },
];

function describeFailures(open: OpenOnce): void {
  it('a final failure is kept and thrown alike to every repeat', async (t) => {
    const { store } = await open(t);
    for (const fail of waysToFail) {
      const step = aStep();
      let runs = 0;
      const effect = () => {
        runs += 1;
        return fail(new EffectFailedError('card_declined', 'no money ✓'));
      };
      for (let repeat = 0; repeat < 4; repeat += 1) {
        await assert.rejects(once(store, step, effect), (error: Error) => {
          assert.ok(error instanceof EffectFailedError);
          assert.deepEqual([error.code, error.message], ['card_declined', 'no money ✓']);
          return true;
        });
      }
      assert.equal(runs, 1);
    }
  });

  it('any other failure frees the key for the next try of the same request', async (t) => {
    const { store } = await open(t);
    for (const fail of waysToFail) {
      const step = aStep();
      const passing = new Error('a time-out');
      await assert.rejects(
        once(store, step, () => fail(passing)),
        passing,
      );
      const other = { ...step, fingerprint: 'another request' };
      assert.deepEqual(await once(store, other, counting().effect), { outcome: 'reused' });
      assert.equal((await once(store, step, counting().effect)).outcome, 'done');
    }
  });

  it('the largest result is replayed; one that cannot be kept is a final failure', async (t) => {
    const { store } = await open(t);
    const largest = 'é'.repeat((resultBytesMax - 2) / 2);
    const step = aStep();
    await once(store, step, () => Promise.resolve(largest));
    const replayed = await once(store, step, counting().effect);
    assert.ok(replayed.outcome === 'replayed' && (replayed.result as unknown) === largest);
    const ring: unknown[] = [];
    ring.push(ring);
    const unkept = [
      { result: `${largest}é`, code: 'result_too_long' },
      { result: 1n, code: 'result_not_json' },
      { result: ring, code: 'result_not_json' },
      { result: counting, code: 'result_not_json' },
    ];
    for (const { result, code } of unkept) {
      const other = aStep();
      let runs = 0;
      const effect = async (): Promise<unknown> => ((runs += 1), result);
      for (let repeat = 0; repeat < 2; repeat += 1) {
        await assert.rejects(once(store, other, effect), { code });
      }
      assert.equal(runs, 1);
    }
  });
}

function describeAbsence(open: OpenOnce): void {
  it('a store that is gone has no effect happen, and it does when the store is back', async (t) => {
    const { store, relay } = await open(t);
    const step = aStep();
    const { effect, runs } = counting();
    await relay.cut();
    await assert.rejects(once(store, step, effect));
    assert.equal(runs(), 0);
    await relay.restore();
    // A start that was sent in vain may still hold the key; it was not.
    assert.equal((await eventually(() => once(store, step, effect))).outcome, 'done');
    assert.equal(runs(), 1);
  });

  it('a store that goes away during an effect that fails takes nothing from why it failed', async (t) => {
    const { store, relay } = await open(t);
    const passing = new Error('a time-out');
    const failing = once(store, aStep(), async () => {
      await relay.cut();
      throw passing;
    });
    await assert.rejects(failing, (error: AggregateError) => {
      assert.equal(error.errors.length, 2);
      return error.errors[0] === passing;
    });
  });

  it('a store that goes away during an effect leaves its key in flight until the lease is over', async (t) => {
    const { store, another, age, relay } = await open(t);
    const step = aStep();
    await assert.rejects(once(store, step, () => relay.cut()));
    const other = await another();
    assert.equal((await once(other, step, counting().effect)).outcome, 'in-flight');
    await age(step, 2 * step.leaseMs);
    assert.equal((await once(other, step, counting().effect)).outcome, 'done');
    await relay.restore();
    const replayed = await eventually(() => once(store, step, counting().effect));
    assert.equal(replayed.outcome, 'replayed');
  });
}
