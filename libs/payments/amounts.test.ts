import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeAmount, formatDecimal, formatMoney, parseDecimal } from './amounts.ts';

test('money is shown in major units with its currency, to the last minor unit', () => {
  assert.equal(formatMoney(1_250n, 'EUR'), '12.50 EUR');
  assert.equal(formatMoney(5, 'USD'), '0.05 USD');
  assert.equal(formatMoney(1_250, 'JPY'), '1 250 JPY');
  assert.equal(formatMoney(1_250, 'KWD'), '1.250 KWD');
  assert.equal(formatMoney('99999999999999999999', 'EUR'), '999 999 999 999 999 999.99 EUR');
  assert.equal(formatMoney(-5n, 'EUR'), '-0.05 EUR');
  assert.equal(formatMoney(-123_456n, 'EUR'), '-1 234.56 EUR');
});

test('an amount has the digits of ISO 4217, whatever digits people in its country write', () => {
  for (const [amount, currency, shown] of [
    [276_145, 'HUF', '2 761.45 HUF'],
    [276_145, 'IDR', '2 761.45 IDR'],
    [276_145, 'MGA', '2 761.45 MGA'],
    [2_761_345, 'IQD', '2 761.345 IQD'],
    [27_612_345, 'CLF', '2 761.2345 CLF'],
    [2_761, 'ISK', '2 761 ISK'],
    [276_145, 'BGN', '2 761.45 BGN'],
    [276_145, 'ABC', '276 145 minor units ABC'],
  ] as const) {
    assert.equal(formatMoney(amount, currency), shown);
    const written = formatDecimal(amount, currency);
    const known = currency !== 'ABC';
    assert.equal(parseDecimal(written, currency), known ? BigInt(amount) : undefined);
  }
});

test('files have amounts without grouping, which are read back', () => {
  assert.equal(formatDecimal(1_234_567n, 'EUR'), '12345.67');
  assert.equal(parseDecimal(formatDecimal(1_234_567n, 'EUR'), 'EUR'), 1_234_567n);
  assert.equal(parseDecimal('1.234', 'EUR'), undefined);
  assert.equal(describeAmount(1_250, 'EUR'), '12.50 EUR');
  assert.equal(describeAmount(1.5, undefined), '1.5 undefined');
});
