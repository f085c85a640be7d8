import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Currency } from './money.ts';
import type { PartnerId } from './nominal.ts';
import { eventTypes, followUpKinds, kinds, paymentKinds, transactionKinds } from './kinds.ts';

const money = { amount: 1_250n, currency: 'EUR' as Currency };
const partnerId = 'acme' as PartnerId;

test("a book transfer moves the whole amount between two accounts of the partner's own", () => {
  const entry = { debit: 'acme:clearing', credit: 'acme:payable', money };
  assert.deepEqual(kinds.payment.entryOf({ partnerId, money }), entry);
});

test('a card payment moves what the provider collected to the partner', () => {
  const entry = { debit: 'provider.stripe:clearing', credit: 'acme:payable', money };
  assert.deepEqual(kinds.payment.entryOf({ partnerId, money, provider: 'stripe' }), entry);
});

test('a refund goes back the way its payment came', () => {
  for (const provider of [undefined, 'stripe'] as const) {
    const { debit, credit } = kinds.payment.entryOf({ partnerId, money, provider })!;
    assert.deepEqual(kinds.refund.entryOf({ partnerId, money, provider }), {
      debit: credit,
      credit: debit,
      money,
    });
  }
});

test('a capture moves what its payment would have moved, and a cancellation nothing', () => {
  const movement = { partnerId, money, provider: 'stripe' } as const;
  assert.deepEqual(kinds.capture.entryOf(movement), kinds.payment.entryOf(movement));
  assert.equal(kinds.cancellation.entryOf(movement), undefined);
});

test('every kind is a payment or follows one, and no two tell the same event', () => {
  assert.deepEqual([...paymentKinds, ...followUpKinds].sort(), [...transactionKinds].sort());
  assert.equal(new Set(eventTypes).size, eventTypes.length);
  for (const kind of transactionKinds) {
    for (const type of Object.values(kinds[kind].ends)) assert.ok(type.startsWith(`${kind}.`));
  }
});
