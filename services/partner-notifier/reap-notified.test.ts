import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openInbox, readOutboxRetention } from '@triplock/inbox';
import { createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, createTestDatabase, succeeded } from '@triplock/testing';
import { notifierMetrics } from './metrics.ts';
import { notifyPartners } from './notify-partners.ts';
import { reapNotified } from './reap-notified.ts';

const dayMs = 86_400_000;
const week = { outcome: 'known', retentionMs: 7 * dayMs } as const;
const month = { outcome: 'known', retentionMs: 30 * dayMs, oldestMs: 0 } as const;
const thirtyDays = {
  metrics: notifierMetrics(createMetrics('test')),
  logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
  keepInboxHours: 720,
  keepDeliveriesMs: 30 * dayMs,
  sources: async () => ({ subscription: week, outbox: month }),
};

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

test('delivered webhooks leave with their attempts, those that wait or were given up stay', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const inbox = openInbox(database, 'partner-notifier');
  const events = [aPayment(), aPayment(), aPayment(), aPayment()].map(succeeded);
  await notifyPartners(
    inbox,
    events.map((event) => ({ event, payloadHash: event.event_id })),
  );
  const ids = events.map(({ event_id: id }) => id);
  const [delivered, failed, waiting, young] = ids;
  const end = (eventId: string | undefined, state: string, days: number) =>
    database.query(
      `UPDATE deliveries SET state = $2, finished_at = now() - $3 * interval '1 day'
       WHERE event_id = $1`,
      [eventId, state, days],
    );
  await end(delivered, 'delivered', 31);
  await end(failed, 'failed', 31);
  await end(young, 'delivered', 29);
  await database.query(
    'INSERT INTO delivery_attempts (event_id, attempt, took_ms) VALUES ($1, 1, 7)',
    [delivered],
  );

  const pass = reapNotified({ inbox, database, ...thirtyDays });
  assert.equal(await pass(), 1);
  assert.equal(await pass(), 0);
  const left = await database.query<{ id: string }>('SELECT event_id AS id FROM deliveries');
  assert.deepEqual(left.map(({ id }) => id).sort(), [failed, waiting, young].sort());
  assert.deepEqual(await database.query('SELECT FROM delivery_attempts'), []);
});

test('the inbox forgets nothing while dispatchers keep events for longer, whenever they say so', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const inbox = openInbox(database, 'partner-notifier');
  const event = succeeded(aPayment());
  await notifyPartners(inbox, [{ event, payloadHash: event.event_id }]);
  await store.open().query(`UPDATE notifier.inbox SET received_at = now() - interval '31 days'`);
  assert.equal((await readOutboxRetention(database)).outcome, 'unknown');

  const dispatcher = store.open('triplock_ledger');
  const sources = async () => ({
    subscription: week,
    outbox: await readOutboxRetention(database),
  });
  const pass = reapNotified({ inbox, database, ...thirtyDays, sources });
  assert.equal(await pass(), 0);
  await dispatcher.query(`SELECT ledger.reap_outbox(interval '31 days', 1)`);
  assert.equal(await pass(), 0);
  await dispatcher.query(`SELECT ledger.reap_outbox(interval '30 days', 1)`);
  assert.equal(await pass(), 1);
});

test('the inbox remembers what is still in the outbox, whatever the dispatchers say', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_notifier');
  const inbox = openInbox(database, 'partner-notifier');
  const owner = store.open();
  for (const days of [41, 40]) {
    const payment = aPayment();
    const event = succeeded(payment);
    await notifyPartners(inbox, [{ event, payloadHash: event.event_id }]);
    await owner.query(publishedSql, [event.event_id, payment.txnId, days]);
    // It was received before it was marked, by a minute.
    await owner.query(receivedSql, [event.event_id, days]);
  }
  const sources = async () => ({
    subscription: week,
    outbox: await readOutboxRetention(database),
  });
  const pass = reapNotified({ inbox, database, ...thirtyDays, sources });
  const dispatcher = store.open('triplock_ledger');
  const leave = (days: number) =>
    dispatcher.query(`SELECT ledger.reap_outbox($1::integer * interval '1 day', 1)`, [days]);

  await leave(60);
  assert.equal(await pass(), 0);
  await leave(30); // The older event leaves; the other one stays for another batch.
  assert.equal(await pass(), 1);
  assert.equal(await pass(), 0);
  await owner.query(
    `UPDATE ledger.outbox SET state = 'pending', published_at = NULL, published_epoch = NULL`,
  );
  assert.equal(await pass(), 0);
  await owner.query(
    `UPDATE ledger.outbox SET state = 'published', published_epoch = 1,
       published_at = now() - interval '40 days'`,
  );
  await leave(30);
  assert.equal(await pass(), 1);
});

test('the notifier deletes deliveries by the reaper only', async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_notifier');
  await assert.rejects(database.query('DELETE FROM deliveries'), /permission denied/);
  await assert.rejects(database.query(`SELECT reap_deliveries('1 hour', 1)`), /a day/);
});
