import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSince, republishEvents } from './republish.ts';

test('a batch is given out only after the one before was published, until none is left', async () => {
  const batches = [3, 2, 0];
  const steps: string[] = [];
  let waiting = 0;
  const total = await republishEvents(
    {
      outbox: {
        republish: () => {
          assert.equal(waiting, 0);
          waiting = batches.shift()!;
          steps.push(`gave ${waiting}`);
          return Promise.resolve(waiting);
        },
      },
      waiting: () => Promise.resolve(waiting),
      rest: () => Promise.resolve((waiting -= 1)),
      progress: (state) => steps.push(`${state.republished} given, ${state.waiting} wait`),
    },
    { since: new Date(0), until: new Date(1) },
  );
  assert.equal(total, 5);
  assert.deepEqual(steps, [
    'gave 3',
    '3 given, 3 wait',
    '3 given, 2 wait',
    '3 given, 1 wait',
    'gave 2',
    '5 given, 2 wait',
    '5 given, 1 wait',
    'gave 0',
  ]);
});

const now = new Date('2026-11-21T12:00:00Z');

test('a time or a day that has begun is taken', () => {
  assert.equal(+parseSince('2026-11-21T10:00:00+02:00', now), Date.UTC(2026, 10, 21, 8));
  assert.equal(+parseSince('2026-11-20', now), Date.UTC(2026, 10, 20));
});

test('what is no time, has no zone or lies ahead is refused', () => {
  for (const text of [undefined, '', 'yesterday', '2026-13-01', '2026-11-20T10:00:00', '1']) {
    assert.throws(() => parseSince(text, now), /--since takes a time/);
  }
  assert.throws(() => parseSince('2026-11-22', now), /lies ahead/);
});
