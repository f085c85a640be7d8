import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { backoffMs } from './backoff.ts';

test('a pause doubles from attempt to attempt, is jittered by half and never above its limit', () => {
  const limits = { firstMs: 100, maxMs: 5_000 };
  fc.assert(
    fc.property(fc.nat({ max: 1_000_000 }), (attempt) => {
      const whole = Math.min(5_000, 100 * 2 ** Math.min(attempt, 30));
      const pause = backoffMs(attempt, limits);
      assert.ok(pause >= whole / 2 && pause <= whole, String(pause));
    }),
  );
});
