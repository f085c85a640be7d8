import { test } from 'node:test';
import assert from 'node:assert/strict';
import { DeadlineError } from '@triplock/runtime';
import type { Calls } from './calls.ts';
import { keepSessions } from './sessions.ts';

/** Sessions that are made at once; nothing else is asked of the calls. */
function sessionsOf(max: number, waitMs?: number) {
  let made = 0;
  const calls = {
    createSession: async () => `session-${(made += 1)}`,
    deleteSession: async () => undefined,
  } as Partial<Calls> as Calls;
  return { sessions: keepSessions(calls, max, waitMs), made: () => made };
}

test('who finds no session free gets one in order, and no more are made than allowed', async () => {
  const { sessions, made } = sessionsOf(2);
  const held = Promise.withResolvers<void>();
  const order: number[] = [];
  const all = [0, 1, 2, 3, 4].map((n) =>
    sessions.lend(async () => {
      order.push(n);
      await held.promise;
    }),
  );
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(order, [0, 1]);
  held.resolve();
  await Promise.all(all);
  assert.deepEqual(order, [0, 1, 2, 3, 4]);
  assert.equal(made(), 2);
});

test('while sessions hang, waiting ends in time, the work is not begun, and others go on afterwards', async () => {
  const { sessions } = sessionsOf(1, 20);
  const hanging = Promise.withResolvers<void>();
  const first = sessions.lend(() => hanging.promise);
  let begun = 0;
  const late = Array.from({ length: 100 }, () => sessions.lend(async () => (begun += 1)));
  const outcomes = await Promise.allSettled(late);
  assert.ok(outcomes.every((each) => each.status === 'rejected'));
  await assert.rejects(late[0]!, DeadlineError);
  hanging.resolve();
  await first;
  assert.equal(await sessions.lend(async () => 'mine'), 'mine');
  assert.equal(begun, 0);
  await sessions.close();
});
