import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestDatabase } from '@triplock/testing';
import { anEvent } from './inbox.conformance.ts';
import { openInbox } from './postgres/postgres-inbox.ts';
import { checkRetention, openInboxReaper } from './retention.ts';

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
  const dispatcher = store.open('triplock_dispatcher');
  const inbox = openInbox(database, 'partner-notifier');
  return {
    owner,
    openReaper: () =>
      openInboxReaper({ inbox, database, keepHours: 720, subscription: week, logger }),
    receive: async (days: number) => {
      const event = anEvent();
      await inbox.receive([event], async () => undefined);
      await owner.query(receivedSql, [event.id, days]);
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
    const { id, orderingKey } = await receive(days);
    await owner.query(publishedSql, [id, orderingKey, days]);
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

test('a consumer that may not ask the outbox is refused, with what it lacks', async (context) => {
  const { owner, openReaper } = await anInbox(context);
  await owner.query('REVOKE EXECUTE ON FUNCTION ledger.outbox_kept FROM triplock_notifier');
  await assert.rejects(
    openReaper(),
    /permission denied for function outbox_kept\): grant the role/,
  );
});

const kept = (hours: number) =>
  ({ outcome: 'known', retentionMs: hours * 3_600_000, oldestMs: 0 }) as const;
const silent = { outcome: 'unknown', why: 'it does not answer' } as const;
const check = (keepHours: number, sources: Parameters<typeof checkRetention>[1]) =>
  checkRetention(keepHours, sources, logger);

test('an inbox that remembers as long as anything can come again is accepted', () => {
  check(720, { outbox: kept(720), subscription: kept(168) });
  check(168, { outbox: kept(24), subscription: kept(168) });
});

test('an inbox that forgets before Pub/Sub does is refused', () => {
  assert.throws(() => check(167, { outbox: kept(24), subscription: kept(168) }), {
    message:
      'INBOX_RETENTION_HOURS is 167 and Pub/Sub can deliver events again for 168 hours: the inbox must remember an event for as long as it can come again',
  });
});

test('an inbox that forgets what the dispatchers can still publish again is refused', () => {
  assert.throws(() => check(720, { outbox: kept(721), subscription: kept(168) }), {
    message:
      "INBOX_RETENTION_HOURS is 720 and the dispatchers' OUTBOX_RETENTION_HOURS keep events for 721 hours: the inbox must remember an event for as long as it can come again",
  });
});

test('what does not report its retention refuses nothing, and hides no other', () => {
  check(24, { outbox: silent, subscription: silent });
  assert.throws(() => check(24, { outbox: silent, subscription: kept(25) }), /Pub\/Sub/);
  assert.throws(() => check(24, { outbox: kept(25), subscription: silent }), /dispatchers/);
});
