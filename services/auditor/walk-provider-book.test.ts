import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JournalRow, ProviderJournal } from '@triplock/provider';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { walkProviderBook } from './walk-provider-book.ts';

const createdAt = new Date();
const common = { amount: 1n, currency: 'EUR', createdAt } as const;

/** Books with one intent of ours and a refund of some intent's, of a word that is not known. */
function booksWith(refundOf: string): ProviderJournal {
  const { txnId, partnerId } = aPayment();
  const ours = { ...common, kind: 'intent', status: 'succeeded', txnId, partnerId } as const;
  const refund = { ...common, kind: 'refund', status: 'unknown', intentId: refundOf } as const;
  const rows: Record<string, JournalRow[]> = {
    intent: [{ ...ours, id: 'pi_ours', intentId: 'pi_ours' }],
    refund: [{ ...refund, id: 're_1' }],
  };
  return {
    list: async ({ kind }) => ({ outcome: 'page', rows: rows[kind] ?? [] }),
    read: async () => undefined,
  };
}

test('a refund of which nobody can say what it means stops the walk where its intent is ours alone', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_auditor');
  await walkProviderBook({ database, books: booksWith('pi_of_others') });
  const booked = await store.open().query<{ id: string }>('SELECT id FROM auditor.provider_book');
  assert.deepEqual(booked, [{ id: 'pi_ours' }]);
  await assert.rejects(walkProviderBook({ database, books: booksWith('pi_ours') }), {
    message: 'unknown_status re_1',
  });
});
