import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { eventOf, type PaymentEvent } from '@triplock/contracts';
import { openInbox } from '@triplock/inbox';
import { openPostgresLedger } from '@triplock/ledger';
import type { Settlement } from '@triplock/payments';
import { migrate, migrationSets } from '@triplock/postgres';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { addToBatches } from './settlement-batches.ts';

const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

test('what was settled before there was a feed is in its batches, and its events are known', async (context) => {
  const store = await createTestDatabase(context);
  const owner = store.open();
  // As a database was before the feed's first migration.
  await owner.transaction(async (tx) => {
    await tx.query('DROP SCHEMA settlement CASCADE');
    await tx.query(`DELETE FROM migrations.applied WHERE owner LIKE 'settlement%'`);
  });
  const posting = (amount: bigint, result: Settlement) => ({
    payment: aPayment({ amount }),
    traceparent,
    settlement: { result, settledAt: new Date('2026-03-04T23:59:59.999Z') },
  });
  const declined = { code: 'card_declined', message: 'the card was declined' };
  await openPostgresLedger(store.open('triplock_ledger')).post([
    posting(700n, { state: 'succeeded' }),
    posting(50n, { state: 'succeeded' }),
    posting(9n, { state: 'failed', failure: declined }),
    { payment: aPayment(), traceparent },
  ]);
  await migrate(store.url(), migrationSets);

  const batches = () =>
    owner.query('SELECT day::text, gross, refunds, payments FROM settlement.batches');
  const expected = [{ day: '2026-03-04', gross: 750n, refunds: 0n, payments: 2n }];
  assert.deepEqual(await batches(), expected);
  const inbox = openInbox(store.open('triplock_settlement'), 'settlement-feed');
  const outbox = await owner.query<{ payload: string }>('SELECT payload FROM ledger.outbox');
  const copies = outbox.map(({ payload }) => ({
    ...eventOf(JSON.parse(payload) as PaymentEvent),
    payloadHash: createHash('sha256').update(payload).digest('hex'),
  }));
  const outcomes = await inbox.receive(
    [...copies, { ...copies[0]!, payloadHash: 'other' }],
    addToBatches,
  );
  assert.deepEqual(
    outcomes.map(({ outcome }) => outcome),
    ['duplicate', 'duplicate', 'duplicate', 'altered'],
  );
  assert.deepEqual(await batches(), expected);
});
