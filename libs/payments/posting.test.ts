import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PartnerId } from './identity.ts';
import type { Currency } from './money.ts';
import { bookTransfer } from './posting.ts';

test("a book transfer moves the whole amount between two accounts of the partner's own", () => {
  const money = { amount: 1_250n, currency: 'EUR' as Currency };
  assert.deepEqual(bookTransfer('acme' as PartnerId, money), {
    debit: 'acme:clearing',
    credit: 'acme:payable',
    money,
  });
});
