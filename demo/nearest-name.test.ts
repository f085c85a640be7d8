import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nearestName } from './nearest-name.ts';

const names = ['retry', 'two-at-once', 'worker-killed', 'worker-asleep', 'smoke'];

test('a slip of the finger and a beginning are understood, another word is not', () => {
  const meant = (word: string) => nearestName(word, names);
  assert.equal(meant('wrker-killed'), 'worker-killed');
  assert.equal(meant('worker-asleap'), 'worker-asleep');
  assert.equal(meant('Retry'), 'retry');
  assert.equal(meant('smok'), 'smoke');
  assert.equal(meant('two'), 'two-at-once');
  assert.equal(meant('everything'), undefined);
  assert.equal(meant('xy'), undefined);
});
