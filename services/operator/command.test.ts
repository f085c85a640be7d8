import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UsageError, wholeNumber } from './command.ts';

const wanted = { option: 'wait', min: 0, max: 60 };

test('an option takes a whole number in its range, or is absent', () => {
  assert.equal(wholeNumber('0', wanted), 0);
  assert.equal(wholeNumber('60', wanted), 60);
  assert.equal(wholeNumber(undefined, wanted), undefined);
});

test('anything else is refused by the name of the option', () => {
  for (const text of ['61', '-1', '1.5', '1e1', '', 'ten', ' 1']) {
    assert.throws(
      () => wholeNumber(text, wanted),
      (error) => {
        return error instanceof UsageError && error.message.startsWith('--wait takes');
      },
    );
  }
});
