import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@triplock/testing';
import {
  EffectFailedError,
  resultBytesMax,
  type EffectContext,
  type OnceOutcome,
} from './effect.ts';
import { once } from './once.ts';
import { ageKey, aStep, database, store } from './once.testing.ts';

const hourMs = 3_600_000;

/** An effect that counts, and gives its number. */
function counting() {
  let runs = 0;
  return { effect: async () => ({ run: (runs += 1), at: new Date(0) }), runs: () => runs };
}

describe('an effect outside of the database', () => {
  it('happens once, and its result is replayed as it was given the first time', async () => {
    const step = aStep();
    const { effect, runs } = counting();
    const result = { run: 1, at: '1970-01-01T00:00:00.000Z' };
    assert.deepEqual(await once(store, step, effect), { outcome: 'done', result });
    assert.deepEqual(await once(store, step, effect), { outcome: 'replayed', result });
    assert.equal(runs(), 1);
  });

  it('happens for one of many at once, and the others are told that it is at work', async () => {
    const step = aStep();
    const gate = Promise.withResolvers<void>();
    const { effect, runs } = counting();
    const outcomes: OnceOutcome<unknown>['outcome'][] = [];
    const held = async () => {
      await gate.promise;
      return effect();
    };
    const asked = Array.from({ length: 20 }, async () => {
      const { outcome } = await once(store, step, held);
      assert.notEqual(outcome, 'taken-over');
      outcomes.push(outcome as OnceOutcome<unknown>['outcome']);
    });
    await eventually(() => Promise.resolve(outcomes.length === 19));
    assert.deepEqual(new Set(outcomes), new Set(['in-flight']));
    gate.resolve();
    await Promise.all(asked);
    assert.equal(outcomes[19], 'done');
    assert.equal(runs(), 1);
  });

  it('a key that belongs to another request is told in every state, and changes nothing', async () => {
    const step = aStep();
    const other = { ...step, fingerprint: 'another request' };
    const { effect } = counting();
    await once(store, step, async () => {
      assert.deepEqual(await once(store, other, effect), { outcome: 'reused' });
    });
    assert.deepEqual(await once(store, other, effect), { outcome: 'reused' });
    assert.deepEqual(await once(store, step, effect), { outcome: 'replayed', result: null });
  });

  it('a final failure is kept and thrown alike to every repeat', async () => {
    const step = aStep();
    let runs = 0;
    const effect = () => {
      runs += 1;
      return Promise.reject(new EffectFailedError('card_declined', 'no money'));
    };
    for (let repeat = 0; repeat < 3; repeat += 1) {
      await assert.rejects(once(store, step, effect), (error: Error) => {
        assert.ok(error instanceof EffectFailedError);
        assert.deepEqual([error.code, error.message], ['card_declined', 'no money']);
        return true;
      });
    }
    assert.equal(runs, 1);
  });

  it('any other failure frees the key for the next try', async () => {
    const step = aStep();
    const passing = new Error('a time-out');
    await assert.rejects(
      once(store, step, () => Promise.reject(passing)),
      passing,
    );
    assert.equal((await once(store, step, counting().effect)).outcome, 'done');
  });

  it('a result that cannot be kept is a final failure, so the effect is not repeated', async () => {
    const step = aStep();
    const tooLong = () => Promise.resolve('x'.repeat(resultBytesMax));
    for (let repeat = 0; repeat < 2; repeat += 1) {
      await assert.rejects(once(store, step, tooLong), { code: 'result_too_long' });
    }
  });

  it('a key is forgotten when it was kept long enough', async () => {
    const step = aStep();
    const { effect } = counting();
    await once(store, step, effect);
    await ageKey(step, 23 * hourMs);
    assert.equal((await once(store, step, effect)).outcome, 'replayed');
    await ageKey(step, 2 * hourMs);
    const other = { ...step, fingerprint: 'another request' };
    assert.equal((await once(store, other, effect)).outcome, 'done');
  });

  it('a key that would be forgotten within its lease is refused', async () => {
    const step = { ...aStep(), keepMs: 1_000, leaseMs: 1_000 };
    await assert.rejects(once(store, step, counting().effect), RangeError);
  });

  it('keys that expired an hour ago leave in small batches', async () => {
    const steps = [aStep(), aStep(), aStep()];
    for (const step of steps) await once(store, step, counting().effect);
    for (const step of steps.slice(1)) await ageKey(step, 26 * hourMs);
    assert.equal(await store.reap({ rowsMax: 1 }), 1);
    assert.equal(await store.reap({ rowsMax: 9 }), 1);
    assert.equal(await store.reap({ rowsMax: 9 }), 0);
    assert.equal((await once(store, steps[0]!, counting().effect)).outcome, 'replayed');
  });
});

describe('the lease of an effect', () => {
  it('an owner that lost it is told so, and the new one’s result is the one that stays', async () => {
    const step = aStep();
    const fences: bigint[] = [];
    const late = await once(store, step, async ({ fence }) => {
      fences.push(fence);
      await ageKey(step, 2 * step.leaseMs);
      const taken = await once(store, step, async (newer) => {
        fences.push(newer.fence);
        return 'newer';
      });
      assert.deepEqual(taken, { outcome: 'done', result: 'newer' });
      return 'late';
    });
    assert.deepEqual(late, { outcome: 'taken-over' });
    assert.ok(fences[1]! > fences[0]!);
    const replayed = await once(store, step, counting().effect);
    assert.deepEqual(replayed, { outcome: 'replayed', result: 'newer' });
  });

  it('is renewed for as long as the effect takes', async () => {
    const step = { ...aStep(), leaseMs: 300 };
    const until = async () => {
      const [row] = await database.query<{ lease_until: Date }>(
        'SELECT lease_until FROM once WHERE scope = $1',
        [step.scope],
      );
      return row!.lease_until.getTime();
    };
    const result = await once(store, step, async () => {
      const first = await until();
      await eventually(async () => (await until()) > first + step.leaseMs);
    });
    assert.equal(result.outcome, 'done');
  });

  it('losing it aborts the signal that the effect was given', async () => {
    const step = { ...aStep(), leaseMs: 300 };
    const aborted = Promise.withResolvers<void>();
    await once(store, step, async ({ signal }: EffectContext) => {
      signal.addEventListener('abort', () => aborted.resolve());
      await database.query('UPDATE once SET owner = gen_random_uuid() WHERE scope = $1', [
        step.scope,
      ]);
      await aborted.promise;
    });
  });
});
