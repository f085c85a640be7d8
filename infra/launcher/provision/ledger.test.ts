import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LauncherError } from '../errors.ts';
import { ledgerOf } from './ledger.ts';

test('a ledger stays where it is, and a new one is where it is asked for', () => {
  assert.equal(ledgerOf({}, undefined), 'postgres');
  assert.equal(ledgerOf({}, 'spanner'), 'spanner');
  const inSpanner = { ledger: 'spanner' as const };
  assert.equal(ledgerOf(inSpanner, undefined), 'spanner');
  assert.throws(() => ledgerOf(inSpanner, 'postgres'), LauncherError);
  const inPostgres = { ledger: 'postgres' as const };
  assert.throws(() => ledgerOf(inPostgres, 'spanner'), /does not move to spanner/);
});
