import assert from 'node:assert/strict';
import { test } from 'node:test';
import { currencies, minorDigits, withdrawnCurrencies } from '@triplock/payments';
import { code, codes } from 'currency-codes';
import { validatePaymentRequest } from '../kinds/payment.ts';

// The list of June 2024, kept by others. What has changed since is named here, and so is what has
// no minor unit, for which it says 0.
const came = ['XAD', 'XCG'];
const went = ['ANG', 'BGN', 'CUC'];
const withoutMinorUnit = 'XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX'.split(' ');

test('the table of currencies agrees with a list that others keep, but for what ISO 4217 has changed since', () => {
  const theirs = codes().filter((each) => !withoutMinorUnit.includes(each) && !went.includes(each));
  assert.deepEqual(currencies, [...theirs, ...came].sort());
  for (const each of [...theirs, ...went])
    assert.equal(minorDigits(each), code(each)!.digits, each);
  for (const each of came) assert.equal(minorDigits(each), 2, each);
});

test('a payment may be in every currency that is in use, and in none that was withdrawn or has no minor unit', () => {
  const asked = (currency: string) => validatePaymentRequest({ amount: 1_250, currency });
  for (const currency of currencies) assert.equal(asked(currency).outcome, 'valid', currency);
  for (const currency of [...withdrawnCurrencies, ...withoutMinorUnit, 'ABC', 'eur']) {
    const refused = asked(currency);
    assert.ok(refused.outcome === 'invalid', currency);
    assert.deepEqual(
      refused.errors.map(({ pointer }) => pointer),
      ['#/currency'],
    );
  }
});
