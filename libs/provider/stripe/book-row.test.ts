import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aPayment } from '@triplock/testing';
import { ProviderError } from '../provider-error.ts';
import { bookRowOf, type Listed } from './book-row.ts';

const { txnId } = aPayment();

const aRow = (object: object) =>
  bookRowOf({
    ...{ id: 're_1', object: 'refund', amount: 1, currency: 'eur', created: 1 },
    ...{ payment_intent: 'pi_1', metadata: {}, ...object },
  } as Listed);

test('a refund of which nothing is said yet is pending', () => {
  assert.equal(aRow({ status: null }).status, 'pending');
});

test('a word that is not known stops nobody where the object is not ours, and everybody where it is', () => {
  assert.equal(aRow({ status: 'reversed' }).status, 'unknown');
  assert.equal(aRow({ status: 'reversed', metadata: { txn_id: 'order 7' } }).status, 'unknown');
  assert.throws(() => aRow({ status: 'reversed', metadata: { txn_id: txnId } }), ProviderError);
});
