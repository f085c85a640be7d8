import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeadlineError, withDeadline } from './deadline.ts';

const limit = { ms: 20, what: 'the database' };

test("work that is done in time keeps its outcome, a failure's too", async () => {
  const error = new Error('refused');
  assert.equal(await withDeadline(Promise.resolve(7), limit), 7);
  await assert.rejects(withDeadline(Promise.reject(error), limit), error);
});

test('work that is late is given up, and what it comes to later disturbs nobody', async () => {
  const late = Promise.withResolvers<void>();
  await assert.rejects(withDeadline(late.promise, limit), (error) => {
    assert.ok(error instanceof DeadlineError);
    assert.equal(error.message, 'the database did not answer within 20 ms');
    return true;
  });
  late.reject(new Error('too late'));
  // An unhandled rejection would fail the test here.
  await new Promise(setImmediate);
});
