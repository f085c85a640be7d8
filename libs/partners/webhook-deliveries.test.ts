import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EventId, PartnerId } from '@triplock/payments';
import { acme, delivered, eventId, failed, store } from './test/webhook-deliveries.ts';

test('pages follow one another without gap or repeat while new deliveries arrive', async (context) => {
  const { add, list } = await store(context);
  // Of one statement, so all have the same time: the id decides.
  await add(Array.from({ length: 12 }, (_, n) => eventId(n)));
  await add(Array.from({ length: 12 }, (_, n) => eventId(12 + n)));
  const whole = (await list()).deliveries.map((each) => each.eventId);
  assert.equal(new Set(whole).size, 24);
  const later = Array.from({ length: 12 }, (_, n) => eventId(12 + n));
  assert.deepEqual(new Set(whole.slice(0, 12)), new Set(later));

  const walked: EventId[] = [];
  for (let page = 0, more = true; more; page += 1) {
    const cursor = walked.at(-1);
    const part = await list({
      limit: 5,
      ...(cursor && { startingAfter: { eventId: cursor, ordinal: 1 } }),
    });
    walked.push(...part.deliveries.map((each) => each.eventId));
    more = part.more;
    await add([eventId(100 + page)]);
  }
  assert.deepEqual(walked, whole);
  assert.equal((await list({ limit: 1 })).deliveries[0]!.eventId, eventId(104));
});

test('a partner sees its own deliveries only, and no other is a cursor', async (context) => {
  const { add, list, deliveries } = await store(context);
  await add([eventId(1)]);
  await add([eventId(2, 'globex')], 'globex');
  const seen = (await list()).deliveries.map((each) => each.eventId);
  assert.deepEqual(seen, [eventId(1)]);
  for (const id of [eventId(2, 'globex'), eventId(99)]) {
    const startingAfter = { eventId: id, ordinal: 1 };
    const page = await deliveries.list({ partnerId: acme, limit: 5, startingAfter });
    assert.deepEqual(page, { outcome: 'unknown-cursor' });
  }
});

test('a delivery shows what became of it, and nothing that may not be shown', async (context) => {
  const { add, change, list } = await store(context);
  const ids = [eventId(1), eventId(2), eventId(3)];
  await add(ids);
  await change(ids[0]!, delivered);
  await change(ids[1]!, failed);
  const shown = (await list()).deliveries;
  const of = (id: EventId) => shown.find((each) => each.eventId === id)!;
  const first = of(ids[0]!);
  assert.deepEqual([first.state, first.attempts, first.lastStatus], ['delivered', 3, 204]);
  assert.deepEqual([first.lastError, first.nextAttemptAt], [null, null]);
  assert.ok(first.deliveredAt instanceof Date);
  assert.equal(first.type, 'payment.succeeded');
  const second = of(ids[1]!);
  assert.deepEqual([second.lastError, second.deliveredAt], ['unanswered', null]);
  assert.doesNotMatch(JSON.stringify(shown), /10\.0\.0\.1/);
  assert.ok(of(ids[2]!).nextAttemptAt instanceof Date);
  for (const [n, state] of ['delivered', 'failed', 'pending'].entries()) {
    const found = (await list({ state: state as 'failed' })).deliveries;
    assert.deepEqual(
      found.map((each) => each.eventId),
      [ids[n]!],
      state,
    );
  }
});

test('what was delivered or given up is due again, with a day of attempts before it', async (context) => {
  const { add, change, deliveries, notifier } = await store(context);
  const ids = [eventId(1), eventId(2)];
  await add(ids);
  await change(ids[0]!, delivered);
  await change(ids[1]!, failed);
  for (const [n, id] of ids.entries()) {
    for (const _time of ['once', 'twice']) {
      const again = await deliveries.redeliver({ partnerId: acme, eventId: id, ordinal: 1 });
      assert.deepEqual([again!.state, again!.deliveredAt], ['pending', null]);
      assert.equal(again!.attempts, [3, 9][n]);
    }
  }
  const due = await notifier.query(
    `SELECT FROM webhooks.deliveries WHERE next_attempt_at <= now() AND first_attempt_at IS NULL`,
  );
  assert.equal(due.length, 2);
});

test('a delivery that is being sent is left to its sender', async (context) => {
  const { add, change, deliveries, notifier } = await store(context);
  await add([eventId(1)]);
  await change(eventId(1), `lease_owner = 'a', next_attempt_at = now() + interval '1 hour'`);
  const before = await notifier.query('SELECT * FROM webhooks.deliveries');
  const again = await deliveries.redeliver({ partnerId: acme, eventId: eventId(1), ordinal: 1 });
  assert.equal(again!.state, 'pending');
  assert.deepEqual(await notifier.query('SELECT * FROM webhooks.deliveries'), before);
});

test("nobody makes another partner's delivery due", async (context) => {
  const { add, change, deliveries, list } = await store(context);
  await add([eventId(1)]);
  await change(eventId(1), delivered);
  const globex = 'globex' as PartnerId;
  const again = await deliveries.redeliver({ partnerId: globex, eventId: eventId(1), ordinal: 1 });
  assert.equal(again, undefined);
  assert.equal((await list()).deliveries[0]!.state, 'delivered');
});

test('the gateway sees no body, and makes a delivery due by one function alone', async (context) => {
  const { add, gateway } = await store(context);
  await add([eventId(1)]);
  for (const forbidden of [
    `UPDATE webhooks.partner_deliveries SET state = 'delivered', finished_at = now()`,
    'UPDATE webhooks.partner_deliveries SET next_attempt_at = now()',
    'SELECT body FROM webhooks.deliveries',
    'SELECT FROM webhooks.delivery_attempts',
    'UPDATE webhooks.deliveries SET state = state',
    `UPDATE webhooks.partner_deliveries SET partner_id = 'globex'`,
    'UPDATE webhooks.partner_deliveries SET attempts = 0',
    'DELETE FROM webhooks.partner_deliveries',
  ]) {
    await assert.rejects(gateway.query(forbidden), /permission denied/, forbidden);
  }
});

test('only the gateway may ask for a delivery again, and no table of the caller stands in for ours', async (context) => {
  const { add, change, gateway, notifier, open } = await store(context);
  await add([eventId(1)]);
  await change(eventId(1), delivered);
  // Refused to the services' roles; here it is tried what holds where it is not.
  await open().query(
    `DO $$ BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO triplock_gateway', current_database()); END $$`,
  );
  const ask = `SELECT state FROM webhooks.redeliver('acme', '${eventId(1)}', 1::smallint)`;
  await assert.rejects(notifier.query(ask), /permission denied/);
  const answered = await gateway.transaction(async (tx) => {
    await tx.query('CREATE TEMPORARY TABLE deliveries (LIKE webhooks.partner_deliveries)');
    return tx.query(ask);
  });
  assert.deepEqual(answered, [{ state: 'pending' }]);
});
