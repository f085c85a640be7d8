import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRateLimiter, type Rate } from './rate-limiter.ts';

/** A limiter whose clock the test turns by hand. */
function aLimiter(rate: Rate) {
  const time = { nowMs: 0 };
  const limiter = createRateLimiter(rate, () => time.nowMs);
  const grantedOf = (tries: number, who = 'acme') =>
    Array.from({ length: tries }, () => limiter.take(who)).filter(
      ({ outcome }) => outcome === 'granted',
    ).length;
  return { time, limiter, grantedOf };
}

test('after a rest a burst is granted, and then so many a second', () => {
  const { time, grantedOf } = aLimiter({ perSecond: 10, burst: 20 });
  assert.equal(grantedOf(50), 20);
  time.nowMs = 1_000;
  assert.equal(grantedOf(50), 10);
  time.nowMs = 3_600_000;
  assert.equal(grantedOf(50), 20);
});

test('asking in small steps gives no more and no less than asking in large ones', () => {
  const { time, grantedOf } = aLimiter({ perSecond: 100, burst: 5 });
  let granted = 0;
  for (time.nowMs = 0; time.nowMs < 10_000; time.nowMs += 1) granted += grantedOf(1);
  assert.ok(granted >= 1_003 && granted <= 1_005, `${granted}`);
});

test('one who does too much takes nothing from another', () => {
  const { grantedOf } = aLimiter({ perSecond: 1, burst: 5 });
  assert.equal(grantedOf(1_000, 'globex'), 5);
  assert.equal(grantedOf(5, 'acme'), 5);
});

test('who is limited is told after how many whole seconds it pays to come again', () => {
  for (const [perSecond, seconds] of [
    [1_000, 1],
    [1, 1],
    [0.2, 5],
  ] as const) {
    const { time, limiter } = aLimiter({ perSecond, burst: 1 });
    limiter.take('acme');
    const limited = limiter.take('acme');
    assert.deepEqual(limited, { outcome: 'limited', retryAfterSeconds: seconds });
    time.nowMs += seconds * 1_000;
    assert.equal(limiter.take('acme').outcome, 'granted');
  }
});

test('ten thousand names are remembered, and the oldest goes for a new one', () => {
  const { limiter, grantedOf } = aLimiter({ perSecond: 1, burst: 1 });
  for (let name = 0; name < 10_000; name += 1) limiter.take(`${name}`);
  assert.equal(grantedOf(1, '0'), 0);
  limiter.take('one more');
  assert.deepEqual([grantedOf(1, '9999'), grantedOf(1, '0')], [0, 1]);
});
