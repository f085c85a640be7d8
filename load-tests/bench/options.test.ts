import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readBenchOptions } from './options.ts';

test('what is not given has a default', () => {
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
      assert.throws(() => readBenchOptions({ [option]: text }), {
        name: 'UsageError',
        message: new RegExp(`^--${option} takes`),
      });
    }
  }
});

test('the share of payments that is traced is from 0 to 1', () => {
  for (const [text, tracing] of Object.entries({ '1': 1, '0.01': 0.01, '.5': 0.5, '0': 0 })) {
    assert.equal(readBenchOptions({ tracing: text }).tracing, tracing);
  }
  for (const text of ['', '2', '1.5', '-1', '1%', 'all']) {
    assert.throws(() => readBenchOptions({ tracing: text }), /--tracing takes a share/);
  }
});
