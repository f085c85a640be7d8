import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LauncherError } from '../launcher-error.ts';
import type { State } from '../state.ts';
import { ledgerOf } from './ledger.ts';

const state: Pick<State, 'claims' | 'ledger'> = {};

test('a ledger stays where it is, and a new one is where it is asked for', () => {
  assert.equal(ledgerOf({ state }, undefined), 'postgres');
  assert.equal(ledgerOf({ state }, 'spanner'), 'spanner');
  const inSpanner = { state: { ...state, ledger: 'spanner' as const } };
  assert.equal(ledgerOf(inSpanner, undefined), 'spanner');
  assert.throws(() => ledgerOf(inSpanner, 'postgres'), LauncherError);
  const inPostgres = { state: { ...state, ledger: 'postgres' as const } };
  assert.throws(() => ledgerOf(inPostgres, 'spanner'), /does not move to spanner/);
});
