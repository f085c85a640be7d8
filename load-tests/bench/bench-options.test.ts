import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UsageError } from '@triplock/infra';
import { readBenchOptions } from './bench-options.ts';

test('what is not told has a default', () => {
  assert.deepEqual(readBenchOptions({}), { seconds: 20, connections: 64, repeat: 3 });
  assert.deepEqual(readBenchOptions({ repeat: '1', connections: '8' }), {
    seconds: 20,
    connections: 8,
    repeat: 1,
  });
});

test('what is no number, or out of range, is refused by its name', () => {
  for (const option of ['seconds', 'connections', 'repeat']) {
    for (const text of ['0', '-1', '1.5', 'many', '']) {
      assert.throws(
        () => readBenchOptions({ [option]: text }),
        (error) => error instanceof UsageError && error.message.startsWith(`--${option} takes`),
      );
    }
  }
});
