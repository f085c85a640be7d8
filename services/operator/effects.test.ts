import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { readEffects } from './effects.ts';

test('what each consumer has of an event is listed apart, with the rights of an auditor', async (t) => {
  const store = await createTestDatabase(t);
  const { txnId } = aPayment();
  await store.open().query(
    `INSERT INTO ledger.outbox (event_id, payment_id, txn_id, event_type, sequence, partner_id,
                                bucket, payload, traceparent)
     VALUES ($1, $1, $1, 'payment.succeeded', 1, 'acme', 0, '{}', '')`,
    [txnId],
  );
  const read = async () => {
    const { inboxRows, feedRows, isPastFeed } = (
      await readEffects(store.open('triplock_auditor'), txnId)
    ).events[0]!;
    return { inboxRows, feedRows, isPastFeed };
  };
  assert.deepEqual(await read(), { inboxRows: 0, feedRows: 0, isPastFeed: false });
  await store.open('triplock_settlement').query(
    `WITH known AS (
       INSERT INTO inbox (consumer, event_id, payload_hash, ordering_key, sequence)
       VALUES ('settlement-feed', $1, '', $1, 1)
     )
     INSERT INTO cursors VALUES ('settlement-feed', $1, 1)`,
    [txnId],
  );
  assert.deepEqual(await read(), { inboxRows: 0, feedRows: 1, isPastFeed: true });
  await store.open().query('DELETE FROM settlement.inbox');
  assert.deepEqual(await read(), { inboxRows: 0, feedRows: 0, isPastFeed: true });
});
