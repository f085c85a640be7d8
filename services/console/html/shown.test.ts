import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatMoney } from '@triplock/payments';
import { money } from './shown.ts';

test('pages and commands write an amount alike', () => {
  for (const [amount, currency] of [
    [1_234_567n, 'EUR'],
    [1_250, 'JPY'],
    [-5n, 'KWD'],
    [0, 'USD'],
  ] as const) {
    assert.equal(money(amount, currency).replaceAll('\u00a0', ' '), formatMoney(amount, currency));
  }
});
