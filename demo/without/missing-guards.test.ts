import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UsageError } from '@triplock/launcher';
import { allScenarios } from '../scenarios/all-scenarios.ts';
import { chooseGuard, missingGuards } from './missing-guards.ts';

test('every guard can be taken away, and has a scenario that shows what it is for', () => {
  assert.deepEqual(
    missingGuards.map(({ name }) => name),
    ['claims', 'ledger', 'inbox'],
  );
  for (const [index, { scenario }] of missingGuards.entries()) {
    const shown = allScenarios.find(({ name }) => name === scenario);
    assert.match(shown!.absorbedBy, new RegExp(`^guard ${index + 1}`));
  }
});

test('a guard that there is not is refused with the names of those that there are', () => {
  assert.equal(chooseGuard('inbox').name, 'inbox');
  assert.throws(
    () => chooseGuard('outbox'),
    (error) => error instanceof UsageError && /claims, ledger, inbox/.test(error.message),
  );
});
