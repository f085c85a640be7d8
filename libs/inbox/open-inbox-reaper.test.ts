import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { aPayment, createTestDatabase, succeeded } from '@triplock/testing';
import { openInboxReaper } from './open-inbox-reaper.ts';
import { openInbox } from './postgres/open-inbox.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const week = { outcome: 'known', retentionMs: 7 * 86_400_000 } as const;

const publishedSql = `
  INSERT INTO ledger.outbox (
    event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent,
    state, published_at, published_epoch, created_at
  ) VALUES (
    $1, 'payment.succeeded', $2::uuid, $2::uuid, 'acme', 1, 1, '{}', 't',
    'published', now() - $3 * interval '1 day', 1, now() - $3 * interval '1 day' - interval '2 min'
  )`;
const receivedSql = `
  UPDATE notifier.inbox SET received_at = now() - $2 * interval '1 day' - interval '1 min'
  WHERE event_id = $1`;

/** An inbox that is kept for 30 days, and what was received so many days ago. */
async function anInbox(context: TestContext) {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const owner = store.open();
  const dispatcher = store.open('triplock_ledger');
  const inbox = openInbox(database, 'partner-notifier');
  return {
    owner,
    openReaper: () =>
      openInboxReaper({ inbox, database, keepInboxHours: 720, subscription: week, logger }),
    receive: async (days: number) => {
      const event = succeeded(aPayment());
      await inbox.receive({ event, payloadHash: event.event_id }, async () => undefined);
      await owner.query(receivedSql, [event.event_id, days]);
      return event;
    },
    /** A dispatcher's reaper at work, which says for how long events are kept. */
    keepPublished: (days: number) =>
      dispatcher.query(`SELECT ledger.reap_outbox($1::integer * interval '1 day', 1)`, [days]),
  };
}

test('the inbox forgets nothing while dispatchers keep events for longer, whenever they say so', async (context) => {
  const { openReaper, receive, keepPublished } = await anInbox(context);
  await receive(31);
  const reap = await openReaper();
  assert.equal(await reap(), 0);
  await keepPublished(31);
  assert.equal(await reap(), 0);
  await assert.rejects(openReaper(), /OUTBOX_RETENTION_HOURS keep events for 744 hours/);
  await keepPublished(30);
  assert.equal(await reap(), 1);
});

test('the inbox remembers what is still in the outbox, whatever the dispatchers say', async (context) => {
  const { owner, openReaper, receive, keepPublished } = await anInbox(context);
  for (const days of [41, 40]) {
    // It was received before it was marked, by a minute.
    const { event_id: eventId, txn_id: txnId } = await receive(days);
    await owner.query(publishedSql, [eventId, txnId, days]);
  }
  const reap = await openReaper();

  await keepPublished(60);
  assert.equal(await reap(), 0);
  await keepPublished(30); // The older event leaves; the other one stays for another batch.
  assert.equal(await reap(), 1);
  assert.equal(await reap(), 0);
  await owner.query(
    `UPDATE ledger.outbox SET state = 'pending', published_at = NULL, published_epoch = NULL`,
  );
  assert.equal(await reap(), 0);
  await owner.query(
    `UPDATE ledger.outbox SET state = 'published', published_epoch = 1,
       published_at = now() - interval '40 days'`,
  );
  await keepPublished(30);
  assert.equal(await reap(), 1);
});

test('a consumer that may not ask the outbox is refused, and told what it lacks', async (context) => {
  const { owner, openReaper } = await anInbox(context);
  await owner.query('REVOKE EXECUTE ON FUNCTION ledger.outbox_kept FROM triplock_notifier');
  await assert.rejects(
    openReaper(),
    /permission denied for function outbox_kept\): grant the role/,
  );
});
