import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differingSums, renderSums, type SumRow } from './sums.ts';

function aRow(wish: Partial<SumRow> = {}): SumRow {
  return {
    partner: 'acme',
    currency: 'EUR',
    accepted: '9',
    ledger: '9',
    published: '9',
    delivered: '9',
    acceptedCount: 2n,
    ledgerCount: 2n,
    publishedCount: 2n,
    deliveredCount: 2n,
    ...wish,
  };
}

test('sums differ by one minor unit or by one transaction', () => {
  assert.deepEqual(differingSums([aRow()]), []);
  const off = [aRow({ delivered: '8' }), aRow({ partner: 'globex', ledgerCount: 3n })];
  assert.deepEqual(differingSums([aRow(), ...off]), ['acme/EUR', 'globex/EUR']);
});

test('a sum that JSON numbers would round is told as text', () => {
  const { accepted, ledger } = renderSums(aRow({ accepted: '9007199254740993' }));
  assert.deepEqual([accepted.amount, ledger.amount], ['9007199254740993', 9]);
});
