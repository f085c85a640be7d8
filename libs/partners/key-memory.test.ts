import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createKeyMemory } from './key-memory.ts';

const remembered = { said: { outcome: 'refused' }, trustedUntilMs: 0 } as const;

test('a full memory forgets the key that was not used for longest', () => {
  const memory = createKeyMemory(2);
  memory.set('a', remembered);
  memory.set('b', remembered);
  memory.get('a');
  memory.set('c', remembered);
  assert.deepEqual(
    ['a', 'b', 'c'].map((key) => memory.get(key) !== undefined),
    [true, false, true],
  );
});
