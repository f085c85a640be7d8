import assert from 'node:assert/strict';
import { test } from 'node:test';
import { republishEvents } from './republish-events.ts';

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
