import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isFinal } from './transaction.ts';

test('only pending can still change', () => {
  assert.deepEqual((['pending', 'succeeded', 'failed'] as const).map(isFinal), [false, true, true]);
});
