import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { openSlots } from './slots.ts';

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('no more slots are taken than there are, whatever is taken and released', () => {
  const step = fc.record({ wanted: fc.integer({ min: -1, max: 5 }), released: fc.nat(5) });
  fc.assert(
    fc.property(fc.nat(8), fc.array(step), (slotsMax, steps) => {
      const slots = openSlots(slotsMax);
      let taken = 0;
      for (const { wanted, released } of steps) {
        taken += slots.takeFree(wanted);
        for (let n = 0; n < Math.min(released, taken); n += 1) slots.release();
        taken -= Math.min(released, taken);
        assert.ok(taken <= slotsMax);
        assert.equal(slots.free(), slotsMax - taken);
      }
    }),
  );
});

test('who waits gets the slot that is released, in order and before anyone who comes later', async () => {
  const slots = openSlots(1);
  const granted: number[] = [];
  for (const n of [0, 1, 2]) void slots.take().then(() => granted.push(n));
  await settled();
  assert.deepEqual(granted, [0]);
  slots.release();
  assert.equal(slots.takeFree(1), 0);
  slots.release();
  await settled();
  assert.deepEqual(granted, [0, 1, 2]);
  slots.release();
  assert.equal(slots.free(), 1);
});

test('callers get slots in turn, however many of one wait', async () => {
  const slots = openSlots(1);
  slots.takeFree(1);
  const granted: string[] = [];
  for (const caller of ['batch', 'batch', 'batch', 'resolver', 'resolver']) {
    void slots.take(caller).then(() => granted.push(caller));
  }
  for (let n = 0; n < 5; n += 1) slots.release();
  await settled();
  assert.deepEqual(granted, ['batch', 'resolver', 'batch', 'resolver', 'batch']);
});
