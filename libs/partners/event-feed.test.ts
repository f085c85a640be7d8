import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { EventType, PartnerId, TxnId } from '@triplock/payments';
import { createTestDatabase } from '@triplock/testing';
import { feedBytesMax, openEventFeed, type FeedQuestion } from './event-feed.ts';
import { acme, eventId } from './test/webhook-deliveries.ts';

type Told = {
  position: bigint;
  type?: EventType;
  partner?: string;
  ordinal?: number;
  says?: string;
};

/** A feed as the notifier fills it and the gateway reads it. */
async function aFeed(context: TestContext) {
  const store = await createTestDatabase(context);
  const owner = store.open();
  const feed = openEventFeed(store.open('triplock_gateway'));
  const tell = async (told: readonly Told[]) => {
    for (const {
      position,
      type = 'payment.succeeded',
      partner = 'acme',
      ordinal = 1,
      says = '',
    } of told) {
      const id = eventId(Number(position), partner);
      const body = JSON.stringify({ type, data: { says } });
      await owner.query(
        `INSERT INTO webhooks.deliveries (event_id, ordinal, position, partner_id, txn_id, body)
         VALUES ($1, $2, $3, $4, $1, $5)`,
        [id, ordinal, position, partner, body],
      );
    }
  };
  const read = async (question: Partial<FeedQuestion> = {}) => {
    const page = await feed.read({ partnerId: acme, limit: 100, ...question });
    assert.ok(page.outcome === 'page', page.outcome);
    const { events, next, more } = page;
    return { positions: events.map(({ position }) => position), next, more, events };
  };
  return { store, owner, feed, tell, read };
}

const upTo = (last: number) => Array.from({ length: last }, (_, n) => BigInt(n + 1));

test('a feed is read in its order, part by part, once for all deliveries of an event', async (context) => {
  const { tell, read } = await aFeed(context);
  assert.deepEqual(await read(), { positions: [], next: 0n, more: false, events: [] });
  await tell(upTo(7).map((position) => ({ position })));
  await tell([
    { position: 3n, ordinal: 2 },
    { position: 8n, partner: 'globex' },
  ]);
  const first = await read({ limit: 3 });
  assert.deepEqual([first.positions, first.next, first.more], [[1n, 2n, 3n], 3n, true]);
  const second = await read({ limit: 4, from: { after: first.next } });
  assert.deepEqual([second.positions, second.next, second.more], [[4n, 5n, 6n, 7n], 7n, false]);
  const nothing = await read({ from: { after: 7n } });
  assert.deepEqual([nothing.positions, nothing.next, nothing.more], [[], 7n, false]);
  assert.deepEqual((await read({ partnerId: 'globex' as PartnerId })).positions, [8n]);
  const [event] = first.events;
  assert.deepEqual(
    [event!.eventId, event!.body],
    [eventId(1), '{"type":"payment.succeeded","data":{"says":""}}'],
  );
});

test('what is asked for by type or object is found among many, and a page that has none goes on', async (context) => {
  const { tell, read, owner } = await aFeed(context);
  await tell([
    { position: 1n, type: 'refund.failed' },
    { position: 2n, type: 'payment.failed' },
    { position: 3n, type: 'payment.succeeded' },
  ]);
  await owner.query(`INSERT INTO webhooks.deliveries (event_id, position, partner_id, txn_id, body)
    SELECT gen_random_uuid(), 10 + n, 'acme', gen_random_uuid(), '{"type":"payment.succeeded"}'
    FROM generate_series(1, 4500) AS n`);
  await tell([{ position: 9_000n, type: 'refund.succeeded' }]);
  const refunds = { of: { object: 'refund' } };
  const first = await read(refunds);
  assert.deepEqual([first.positions, first.more], [[1n], true]);
  const found = [...first.positions];
  let page = first;
  for (let asked = 0; page.more; asked += 1) {
    assert.ok(asked < 5, 'it does not end');
    page = await read({ ...refunds, from: { after: page.next } });
    found.push(...page.positions);
  }
  assert.deepEqual(found, [1n, 9_000n]);
  assert.deepEqual((await read({ type: 'payment.failed' })).positions, [2n]);
  assert.deepEqual(
    (await read({ type: 'payment.failed', of: { object: 'refund' } })).positions,
    [],
  );
  const one = { of: { txnId: eventId(9_000) as string as TxnId } };
  const of = await read(one);
  assert.deepEqual([of.positions, of.next, of.more], [[9_000n], 9_000n, false]);
  assert.deepEqual((await read({ ...one, type: 'refund.failed' })).positions, []);
  assert.deepEqual((await read({ ...one, partnerId: 'globex' as PartnerId })).positions, []);
});

test('a page ends before the event with which it would be too large, and never before its first', async (context) => {
  const { tell, read } = await aFeed(context);
  const half = 'x'.repeat(feedBytesMax / 2 - 100);
  const whole = 'x'.repeat(feedBytesMax);
  await tell(['', whole, half, half, half].map((says, n) => ({ position: BigInt(n + 1), says })));
  const pages: bigint[][] = [];
  for (let after = 0n, more = true; more;) {
    const page = await read({ from: { after } });
    pages.push(page.positions);
    ({ next: after, more } = page);
  }
  assert.deepEqual(pages, [[1n], [2n], [3n, 4n], [5n]]);
});

test('a position behind which something was removed is told to be too old, and no other', async (context) => {
  const { tell, read, feed, owner, store } = await aFeed(context);
  await tell(upTo(6).map((position) => ({ position })));
  await tell([{ position: 4n, partner: 'globex' }]);
  await owner.query(`UPDATE webhooks.deliveries SET state = 'delivered',
    finished_at = now() - interval '91 days' WHERE position IN (2, 3) AND partner_id = 'acme'`);
  const notifier = store.open('triplock_notifier');
  await notifier.query(`SELECT webhooks.reap_deliveries('90 days', '90 days', 100)`);
  for (const after of [0n, 2n]) {
    const page = await feed.read({ partnerId: acme, limit: 100, from: { after } });
    assert.deepEqual(page, { outcome: 'expired' }, `${after}`);
  }
  assert.deepEqual((await read({ from: { after: 3n } })).positions, [4n, 5n, 6n]);
  // Who begins anew begins behind it, and can go on from wherever that leads; others lost nothing.
  const anew = await read({ limit: 1 });
  assert.deepEqual([anew.positions, anew.next, anew.more], [[4n], 4n, true]);
  const since = await read({ from: { since: new Date(0) } });
  assert.deepEqual(since.positions, [4n, 5n, 6n]);
  const of = { of: { txnId: eventId(1) as string as TxnId } };
  const none = await read(of);
  assert.deepEqual([none.positions, none.next], [[], 3n]);
  assert.deepEqual((await read({ ...of, from: { after: none.next } })).positions, []);
  const globex = { partnerId: 'globex' as PartnerId, from: { after: 0n } };
  assert.deepEqual((await read(globex)).positions, [4n]);
});

test('positions are times, so that a feed can be read since one', async (context) => {
  const { tell, read, owner } = await aFeed(context);
  const [taken] = await owner.query<{ before: bigint }>(
    'SELECT webhooks.take_positions(2) AS before',
  );
  await tell([
    { position: 1n },
    { position: taken!.before + 1n },
    { position: taken!.before + 2n },
  ]);
  const since = (agoMs: number) => ({ from: { since: new Date(Date.now() - agoMs) } });
  assert.equal((await read(since(60_000))).positions.length, 2);
  // What is told while a clock that is ahead asks for what comes from now on.
  const ahead = await read(since(-3_600_000));
  assert.equal(ahead.positions.length, 2);
  assert.ok(ahead.next < BigInt(Date.now() + 310_000) * 1_000n);
});

test('on a server that was set back positions begin behind all that were ever given', async (context) => {
  const { owner } = await aFeed(context);
  const take = async () => {
    const rows = await owner.query<{ before: bigint }>(
      'SELECT webhooks.take_positions(10) AS before',
    );
    return rows[0]!.before;
  };
  await take();
  const kept = await owner.query<{ last_value: bigint }>(
    'SELECT last_value FROM webhooks.feed_positions',
  );
  const lost = [await take(), await take()];
  assert.ok(lost[1]! >= lost[0]! + 10n);
  // What comes back is older, on another server, whose clock may be behind.
  await owner.query(`SELECT setval('webhooks.feed_positions', $1)`, [kept[0]!.last_value]);
  await owner.query(`UPDATE webhooks.feed_server SET server = 'the one that is gone'`);
  const first = await take();
  assert.ok(first >= lost[1]! + 10n, `${first - lost[1]!}`);
  assert.equal(await take(), first + 10n);
  // However often that happens, it is never further ahead.
  for (let starts = 0; starts < 5; starts += 1) {
    await owner.query(`UPDATE webhooks.feed_server SET server = 'another'`);
    const before = await take();
    assert.ok(before <= BigInt(Date.now() + 301_000) * 1_000n, `${before}`);
  }
  for (const how of [0, -5, 1_000_000]) {
    await assert.rejects(owner.query('SELECT webhooks.take_positions($1)', [how]), /at once/);
  }
});
