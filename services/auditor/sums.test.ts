import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differingSums, renderSums, type SumRow } from './sums.ts';

/**
 * Two payments, one of them partly refunded, as every layer has them, but for what a test wishes.
 */
function rowsOf(wish: Readonly<Record<string, Partial<SumRow>>> = {}, partner = 'acme'): SumRow[] {
  const usual = {
    payments: ['accepted', 'ledger', 'published', 'delivered'],
    gross: ['ledger', 'published', 'delivered'],
    refunds: ['ledger', 'published', 'delivered'],
    charged: ['ledger', 'provider'],
    givenBack: ['ledger', 'provider'],
  };
  return Object.entries(usual).flatMap(([figure, layers]) =>
    layers.map((layer) => {
      const amount = figure === 'refunds' ? '4' : '9';
      const row = { partner, currency: 'EUR', figure, layer, count: '2', amount };
      return { ...row, ...wish[`${figure}/${layer}`] };
    }),
  );
}

test('sums differ by one minor unit, by one transaction, or where a layer has nothing', () => {
  const withProvider = true;
  assert.deepEqual(differingSums(rowsOf(), { withProvider }), []);
  for (const [layer, wish] of [
    ['payments/delivered', { amount: '8' }],
    ['payments/ledger', { count: '3' }],
    ['gross/published', { amount: '10' }],
    ['refunds/delivered', { amount: '3' }],
    ['refunds/ledger', { layer: 'nowhere' }],
    ['charged/provider', { amount: '8' }],
    ['givenBack/ledger', { count: '1' }],
  ] as const) {
    const rows = [...rowsOf(), ...rowsOf({ [layer]: wish }, 'globex')];
    assert.deepEqual(differingSums(rows, { withProvider }), ['globex/EUR'], layer);
  }
});

test('a provider that was not asked differs from nobody', () => {
  const rows = rowsOf({ 'charged/provider': { amount: '8' } });
  assert.deepEqual(differingSums(rows, { withProvider: false }), []);
});

test('what is left of the payments is gross without refunds', () => {
  const [sums] = renderSums(rowsOf());
  assert.deepEqual(sums!.gross.ledger, { count: 2, amount: 9 });
  assert.deepEqual(sums!.refunds.delivered, { count: 2, amount: 4 });
  assert.equal(sums!.net, 5);
});

test('a sum that JSON numbers would round is shown as text', () => {
  const [sums] = renderSums(rowsOf({ 'payments/accepted': { amount: '9007199254740993' } }));
  assert.deepEqual([sums!.accepted.amount, sums!.ledger.amount], ['9007199254740993', 9]);
});
