import assert from 'node:assert/strict';
import { test } from 'node:test';
import { currencies, minorDigits, withdrawnCurrencies } from './currencies.ts';

test('where people write an amount as banks count it, the runtime agrees; where they do not is known', () => {
  // What people in these countries no longer write, by CLDR; the runtime's version decides on HUF.
  const written = 'AFN ALL COP HUF IDR IQD IRR KPW LAK LBP MGA MMK PKR SOS SYP YER'.split(' ');
  const differ = currencies.filter((currency) => {
    const format = new Intl.NumberFormat('en', { style: 'currency', currency });
    return format.resolvedOptions().maximumFractionDigits !== minorDigits(currency);
  });
  assert.deepEqual(
    differ.filter((each) => !written.includes(each)),
    [],
  );
});

test('a code that was withdrawn can be read, is not among those of new payments, and one that never was has no digits', () => {
  assert.deepEqual(withdrawnCurrencies, ['ANG', 'BGN', 'CUC']);
  assert.ok(withdrawnCurrencies.every((each) => !currencies.includes(each)));
  assert.ok(withdrawnCurrencies.every((each) => minorDigits(each) === 2));
  for (const each of ['XXX', 'XTS', 'XAU', 'ABC', 'eur', 'toString', '']) {
    assert.equal(minorDigits(each), undefined, each);
  }
});
