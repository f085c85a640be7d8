import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openInbox } from '@triplock/inbox';
import { createMetrics } from '@triplock/runtime';
import { aPayment, createTestDatabase, succeeded } from '@triplock/testing';
import { notifierMetrics } from './metrics.ts';
import { notifyPartners } from './notify-partners.ts';
import { reapNotified } from './reap-notified.ts';

const dayMs = 86_400_000;

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

  const pass = reapNotified({
    reapInbox: async () => 0,
    database,
    metrics: notifierMetrics(createMetrics('test')),
    keepDeliveriesMs: 30 * dayMs,
  });
  assert.equal(await pass(), 1);
  assert.equal(await pass(), 0);
  const left = await database.query<{ id: string }>('SELECT event_id AS id FROM deliveries');
  assert.deepEqual(left.map(({ id }) => id).sort(), [failed, waiting, young].sort());
  assert.deepEqual(await database.query('SELECT FROM delivery_attempts'), []);
});

test('the notifier deletes deliveries by the reaper only', async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_notifier');
  await assert.rejects(database.query('DELETE FROM deliveries'), /permission denied/);
  await assert.rejects(database.query(`SELECT reap_deliveries('1 hour', 1)`), /a day/);
});
