import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { UsageError } from '@triplock/launcher';
import { allScenarios, storyScenarios } from './all-scenarios.ts';
import { chooseScenarios } from './choose-scenarios.ts';

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
];

test('every failure of the pipeline has a scenario in a file of its name', () => {
  assert.deepEqual(
    allScenarios.map(({ name }) => name),
    failures,
  );
  const files = readdirSync(import.meta.dirname);
  for (const name of failures) assert.ok(files.includes(`${name}.ts`), name);
});

test('a scenario says what fails and which guard absorbs it', () => {
  for (const { failure, absorbedBy } of allScenarios) {
    assert.ok(failure.length > 20);
    assert.match(absorbedBy, /^guard [123]/);
  }
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
