import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UsageError } from '@triplock/launcher';
import { allScenarios, chooseScenarios, nearestName, storyScenarios } from './all.ts';

const failures = [
  'retry',
  'claim-expired',
  'two-at-once',
  'worker-killed',
  'charged-not-settled',
  'charge-timed-out',
  'sticky-500',
  'worker-asleep',
  'declined-then-retried',
  'refund-storm',
  'dispatcher-killed',
  'downstream-replayed',
  'redelivered-out-of-order',
  'claims-forgotten',
  'claims-lost-in-a-card',
  'keys-race-claims-loss',
  'kafka-replayed',
  'accepted-lost',
];

test('every failure of the pipeline has a scenario', () => {
  assert.deepEqual(
    allScenarios.map(({ name }) => name),
    failures,
  );
});

test('a scenario says what fails and which guard absorbs it, and of one loss who sees it', () => {
  for (const { failure, absorbedBy } of allScenarios) {
    assert.ok(failure.length > 20);
    assert.match(absorbedBy, /^(guard [123]|no guard: the audit names)/);
  }
  const unguarded = allScenarios.filter(({ absorbedBy }) => absorbedBy.startsWith('no guard'));
  assert.deepEqual(
    unguarded.map(({ name }) => name),
    ['accepted-lost'],
  );
});

test('the story tells some of them, in the same order', () => {
  assert.deepEqual(
    storyScenarios,
    allScenarios.filter((each) => storyScenarios.includes(each)),
  );
});

test('one is chosen by its name, and all by --all', () => {
  assert.deepEqual(
    chooseScenarios('retry', false).map(({ name }) => name),
    ['retry'],
  );
  assert.equal(chooseScenarios(undefined, true), allScenarios);
});

test('an unclear choice is refused with the names', () => {
  for (const [name, all] of [
    ['rety', false],
    [undefined, false],
  ] as const) {
    assert.throws(
      () => chooseScenarios(name, all),
      (error) => {
        return error instanceof UsageError && error.message.includes('worker-killed');
      },
    );
  }
  assert.throws(() => chooseScenarios('retry', true), UsageError);
});

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
