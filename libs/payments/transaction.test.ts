import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PartnerId } from './identity.ts';
import { paymentEntry, refundEntry, type Currency } from './money.ts';
import { isFinal } from './transaction.ts';

const money = { amount: 1_250n, currency: 'EUR' as Currency };
const partnerId = 'acme' as PartnerId;

test("a book transfer moves the whole amount between two accounts of the partner's own", () => {
  const entry = { debit: 'acme:clearing', credit: 'acme:payable', money };
  assert.deepEqual(paymentEntry('payment', { partnerId, money }), entry);
});

test('a card payment moves what the provider collected to the partner', () => {
  const entry = { debit: 'provider.stripe:clearing', credit: 'acme:payable', money };
  assert.deepEqual(paymentEntry('payment', { partnerId, money, provider: 'stripe' }), entry);
});

test('a refund goes back the way its payment came', () => {
  for (const provider of [undefined, 'stripe'] as const) {
    const { debit, credit } = paymentEntry('payment', { partnerId, money, provider });
    assert.deepEqual(refundEntry({ partnerId, money, provider }), {
      debit: credit,
      credit: debit,
      money,
    });
  }
});

test('only pending can still change', () => {
  assert.deepEqual((['pending', 'succeeded', 'failed'] as const).map(isFinal), [false, true, true]);
});
