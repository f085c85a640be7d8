import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findKnee } from './knee.ts';

/** A system that holds up to a rate, and stutters at its first try of some. */
function upTo(limit: number, stutters: readonly number[] = []) {
  const tried = new Set<number>();
  return async (rate: number) => {
    const again = tried.has(rate);
    tried.add(rate);
    const holds = rate <= limit && (again || !stutters.includes(rate));
    return { rate, holds, missed: holds ? [] : ['accept_ms'], p99Ms: 1, acceptedPerSecond: rate };
  };
}

test('the knee is within a tenth below the rate that is too much', async () => {
  for (const limit of [100, 149, 640, 4_321]) {
    const { rate } = await findKnee(100, upTo(limit));
    assert.ok(rate <= limit && rate >= limit * 0.9 - 1, `${rate} for ${limit}`);
  }
});

test('a knee of a few payments a second is found to the payment', async () => {
  for (let limit = 1; limit < 10; limit += 1) {
    const { rate } = await findKnee(1, upTo(limit));
    assert.equal(rate, limit);
  }
});

test('a rate that stutters once is tried again', async () => {
  const { rate, steps } = await findKnee(100, upTo(400, [150]));
  assert.ok(rate > 360);
  assert.equal(steps.filter((step) => step.rate === 150).length, 2);
});

test('a system that does not hold the first rate has no knee', async () => {
  const { rate, steps } = await findKnee(100, upTo(50));
  assert.equal(rate, 0);
  assert.equal(steps.length, 2);
});
