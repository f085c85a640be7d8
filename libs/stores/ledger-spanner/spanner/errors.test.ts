import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isInvalidated, isRefusal, status } from './errors.ts';

const ended = (code: number, message: string) => Object.assign(new Error(message), { code });

test('a commit is refused for good only for what it would have written', () => {
  const check = ended(status.failedPrecondition, 'Check constraint amount_is_positive is violated');
  assert.deepEqual([isRefusal(check), isInvalidated(check)], [true, false]);
});

test('a transaction that a later one of its session invalidated is tried again', () => {
  const later = ended(
    status.failedPrecondition,
    'This transaction has been invalidated by a later transaction in the same session.',
  );
  assert.deepEqual([isRefusal(later), isInvalidated(later)], [false, true]);
});
