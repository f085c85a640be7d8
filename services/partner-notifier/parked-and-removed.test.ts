import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { aConsumer } from '@triplock/consumer/test';
import { createMetrics } from '@triplock/runtime';
import { aPayment, createTestDatabase, messageOf, succeeded } from '@triplock/testing';
import { notifyPartners, openDeliveries, type AttemptRecord } from './deliveries.ts';
import { notifierMetrics } from './metrics.ts';
import {
  addEndpoint,
  anHour,
  insert,
  isGone,
  delivered,
  manyRates,
  noRoom,
  notDelivered,
  queues,
  retention,
  setEndpoint,
} from './test/webhooks.ts';
import { reapDeliveries } from './upkeep.ts';

async function aSubscriber(context: TestContext) {
  const effect = Promise.withResolvers<ReturnType<typeof notifyPartners>>();
  const consumer = await aConsumer(context, {
    name: 'partner-notifier',
    shortName: 'notifier',
    role: 'triplock_notifier',
    effect: async (tx, events) => (await effect.promise)(tx, events),
  });
  effect.resolve(notifyPartners(openDeliveries(consumer.database, manyRates), noRoom));
  return consumer;
}

test('an event published three times becomes one delivery with the body of the event', async (context) => {
  const { handle, rows } = await aSubscriber(context);
  const event = succeeded(aPayment({ metadata: { b: '2', a: '1' } }));
  for (let copy = 0; copy < 3; copy += 1) assert.equal(await handle(messageOf(event)), 'ack');
  const deliveries = await rows<{ body: string }>('SELECT * FROM webhooks.deliveries');
  assert.equal(deliveries.length, 1);
  const { type, timestamp, sequence, data } = event;
  assert.deepEqual(JSON.parse(deliveries[0]!.body), { type, timestamp, sequence, data });
  assert.partialDeepStrictEqual(deliveries[0], {
    event_id: event.event_id,
    partner_id: 'acme',
    txn_id: event.txn_id,
    // This partner has no endpoint.
    state: 'parked',
    attempts: 0,
  });
});

test('endpoints that have something in a state are found by the index of that state alone', async (context) => {
  const { database } = await aSubscriber(context);
  for (const [state, index] of Object.entries({ pending: 'due', parked: 'parked' })) {
    const plan = await database.transaction(async (tx) => {
      // Nothing is in the table, of which a planner would else read the whole.
      await tx.query('SET LOCAL enable_seqscan = off');
      return tx.query<object>(`EXPLAIN SELECT * FROM queues_with('${state}')`);
    });
    const lines = plan.flatMap((row) => Object.values(row));
    const scans = lines.filter((line) => / on deliveries\b/.test(line));
    assert.ok(scans.length > 0, lines.join('\n'));
    for (const scan of scans) assert.match(scan, new RegExp(`using deliveries_${index} `));
  }
});

test('a notifier that dies between commit and acknowledgement delivers once', async (context) => {
  const { handle, rows, crashPoints } = await aSubscriber(context);
  const event = succeeded(aPayment());
  crashPoints.arm({ name: 'notifier.received', action: { do: 'throw' } });
  await assert.rejects(handle(messageOf(event)), /crash point/);
  assert.equal((await rows('SELECT FROM webhooks.deliveries')).length, 0);
  crashPoints.arm({ name: 'notifier.committed', action: { do: 'throw' } });
  await assert.rejects(handle(messageOf(event)), /crash point/);
  assert.equal((await rows('SELECT FROM webhooks.deliveries')).length, 1);
  assert.equal(await handle(messageOf(event)), 'ack');
  assert.equal((await rows('SELECT FROM webhooks.deliveries')).length, 1);
});

test('what fails while its endpoint is gone is parked, and has all its time again once it is back', async (context) => {
  const { database, owner, deliveries, lease } = await queues(context, { acme: 1 });
  const [first] = await lease();
  await database.query(
    `UPDATE webhooks.deliveries SET first_attempt_at = now() - interval '3 days'`,
  );
  await owner.query(isGone);
  assert.equal(await deliveries.record(first!, { ...notDelivered, status: 410 }), 'parked');
  assert.deepEqual(await lease(), []);
  assert.equal(await deliveries.release(100), 0);
  const { oldestParkedSeconds, ...backlog } = await deliveries.backlog();
  assert.partialDeepStrictEqual(backlog, { waiting: 0, parked: 1 });
  // Since when it is parked, and not when it would have been due.
  assert.ok(oldestParkedSeconds >= 0);

  await setEndpoint(owner, 'acme');
  assert.equal(await deliveries.release(100), 1);
  assert.equal(await deliveries.release(100), 0);
  const [second] = await lease();
  assert.deepEqual([second!.attempt, second!.failedBefore], [2, 0]);
  assert.equal(await deliveries.record(second!, notDelivered), 'pending');
});

test('what was not sent for want of an endpoint is no attempt, and is due if one was set meanwhile', async (context) => {
  const { database, owner, deliveries, lease } = await queues(context, { acme: 2 });
  const notSent: AttemptRecord = {
    ...notDelivered,
    outcome: 'not-sent',
    nextInMs: 0,
    status: null,
    error: null,
  };
  const [one, other] = await lease();
  assert.equal(await deliveries.record(one!, notSent), 'pending');
  await owner.query(isGone);
  assert.equal(await deliveries.record(other!, notSent), 'parked');
  assert.deepEqual(await database.query('SELECT FROM webhooks.delivery_attempts'), []);
  const [again, ...rest] = await lease();
  assert.deepEqual([again!.eventId, again!.failedBefore, rest], [one!.eventId, 0, []]);
});

test('parked webhooks of one partner are released in batches, oldest first, and nobody else’s with them', async (context) => {
  const { database, owner, deliveries } = await queues(context, { acme: 5, globex: 3, zeta: 2 });
  // Those with the lowest ids are the youngest.
  await database.query(`UPDATE webhooks.deliveries AS delivery
    SET state = 'parked', next_attempt_at = now() - nth * interval '1 minute'
    FROM (SELECT event_id, row_number() OVER (ORDER BY event_id) AS nth
          FROM webhooks.deliveries) AS numbered
    WHERE delivery.event_id = numbered.event_id`);
  const parkedOf = (partner: string) =>
    database.query<{ id: string }>(
      `SELECT event_id AS id FROM webhooks.deliveries WHERE state = 'parked' AND partner_id = $1
       ORDER BY next_attempt_at DESC`,
      [partner],
    );
  const [youngest] = await parkedOf('globex');
  await owner.query(`${isGone} WHERE partner_id <> 'globex'`);
  assert.equal(await deliveries.release(2), 2);
  assert.deepEqual(await parkedOf('globex'), [youngest]);
  assert.equal(await deliveries.release(2), 1);
  assert.equal(await deliveries.release(2), 0);
  const due = `SELECT DISTINCT partner_id FROM webhooks.deliveries WHERE state = 'pending'`;
  assert.deepEqual(await database.query(due), [{ partner_id: 'globex' }]);
});

test('senders that release at once release each webhook once', async (context) => {
  const { database, deliveries } = await queues(context, { acme: 300 });
  await database.query(`UPDATE webhooks.deliveries SET state = 'parked'`);
  const released = await Promise.all(Array.from({ length: 6 }, () => deliveries.release(100)));
  const rest = await deliveries.release(1_000);
  assert.equal(
    released.reduce((all, each) => all + each, rest),
    300,
  );
});

test('webhooks are removed with their attempts when their time is over, each kind after its own', async (context) => {
  const { database, owner, deliveries } = await queues(context, { acme: 6 });
  const rows = await database.query<{ id: string }>(
    'SELECT event_id AS id FROM webhooks.deliveries',
  );
  const [delivered, failed, parked, waiting, young, failedLately] = rows.map(({ id }) => id);
  const end = (eventId: string | undefined, state: string, days: number) =>
    database.query(
      `UPDATE webhooks.deliveries SET state = $2, next_attempt_at = now() - $3 * interval '1 day',
         finished_at = CASE $2 WHEN 'parked' THEN NULL ELSE now() - $3 * interval '1 day' END
       WHERE event_id = $1`,
      [eventId, state, days],
    );
  await end(delivered, 'delivered', 31);
  await end(young, 'delivered', 29);
  await end(failed, 'failed', 91);
  await end(parked, 'parked', 91);
  await end(failedLately, 'failed', 89);
  await database.query(
    'INSERT INTO webhooks.delivery_attempts (event_id, attempt, took_ms) VALUES ($1, 1, 7), ($2, 1, 7)',
    [delivered, failed],
  );
  // At another endpoint the same event was given up, and stays for as long as such do.
  await owner.query(
    `INSERT INTO webhooks.deliveries (event_id, ordinal, partner_id, txn_id, body, state, finished_at)
     SELECT event_id, 2, partner_id, txn_id, body, 'failed', finished_at
     FROM webhooks.deliveries WHERE event_id = $1`,
    [delivered],
  );
  const pair = 'UPDATE webhooks.deliveries SET made_together = 2, body = $2 WHERE event_id = $1';
  const data = { amount: 250, currency: 'EUR' };
  await owner.query(pair, [delivered, JSON.stringify({ type: 'payment.succeeded', data })]);
  const metrics = notifierMetrics(createMetrics('test'));
  const pass = reapDeliveries(deliveries, metrics, retention);
  assert.deepEqual([await pass(), await pass(), await pass()], [1, 2, 0]);
  const left = await database.query<{ id: string }>(
    'SELECT event_id AS id FROM webhooks.deliveries',
  );
  const kept = [delivered, waiting, young, failedLately];
  assert.deepEqual(left.map(({ id }) => id).sort(), kept.sort());
  assert.deepEqual(await database.query('SELECT FROM webhooks.delivery_attempts'), []);
  const sums = async () => {
    const rows = await owner.query<{ sum: string }>(
      `SELECT concat_ws(' ', ordinal, state, deliveries, amount, others, others_amount) AS sum
       FROM webhooks.reaped_deliveries ORDER BY 1`,
    );
    return rows.map(({ sum }) => sum);
  };
  const firsts = ['1 delivered 1 250 1 250', '1 failed 1 0 0 0', '1 parked 1 0 0 0'];
  assert.deepEqual(await sums(), firsts);
  await end(delivered, 'failed', 91);
  assert.equal(await pass(), 1);
  assert.deepEqual(await sums(), [...firsts, '2 failed 1 250 0 0']);
});

test('what forty endpoints that were made and deleted left behind leaves in its time, and nothing before', async (context) => {
  const { owner, deliveries } = await queues(context, { globex: 1 });
  await owner.query(`INSERT INTO partners.partners (id) VALUES ('acme') ON CONFLICT DO NOTHING`);
  /** As of so many days ago, by the statements' own rows; triggers write the wishes as of now. */
  const made = async (days: number, deletedDaysAgo: number | null) => {
    await owner.query(
      `WITH made AS (
         INSERT INTO partners.webhook_endpoints
           (partner_id, url, host, secrets, made_at, deleted_at)
         SELECT 'acme', 'https://a.example', 'a.example',
                CASE WHEN $2::integer IS NULL
                  THEN '[{"id": "a", "key": "b", "box": "c"}]'::jsonb ELSE '[]' END,
                now() - $1::integer * interval '1 day', now() - $2::integer * interval '1 day'
         FROM generate_series(1, 20)
         RETURNING endpoint_id, made_at
       )
       INSERT INTO partners.endpoint_verifications
         (endpoint_id, partner_id, version, host, asked_at, asks)
       SELECT endpoint_id, 'acme', made_at, 'a.example', made_at, 1 FROM made`,
      [days, deletedDaysAgo],
    );
    await owner.query('ALTER TABLE partners.endpoint_wishes DISABLE TRIGGER USER');
    await owner.query(
      `UPDATE partners.endpoint_wishes SET since = now() - $1::integer * interval '1 day'
       WHERE partner_id = 'acme' AND since > now() - interval '1 minute'`,
      [deletedDaysAgo ?? days],
    );
    await owner.query('ALTER TABLE partners.endpoint_wishes ENABLE TRIGGER USER');
    await owner.query(
      `INSERT INTO partners.acts (act, partner_id, done_by, done_at)
       SELECT 'make-endpoint', 'acme', who, now() - $1::integer * interval '1 day'
       FROM generate_series(1, 20), unnest('{partner acme,webhook sender,ada}'::text[]) AS who`,
      [days],
    );
  };
  await made(401, 91);
  await made(399, 89);
  await made(401, null);
  await owner.query(
    `INSERT INTO webhooks.redelivery_acts
       (partner_id, idempotency_key, fingerprint, since, until, deliveries, done_at)
     SELECT 'acme', 'k' || n, 'f', now(), now(), 0, now() - n * interval '1 day'
     FROM unnest('{89,91}'::integer[]) AS n`,
  );
  const count = async () => {
    const rows = await owner.query<{ what: string; count: number }>(
      `SELECT 'endpoints' AS what, count(*)::integer FROM partners.webhook_endpoints WHERE partner_id = 'acme'
       UNION ALL SELECT 'wishes', count(*)::integer FROM partners.endpoint_wishes WHERE partner_id = 'acme'
       UNION ALL SELECT 'questions', count(*)::integer FROM partners.endpoint_verifications WHERE partner_id = 'acme'
       UNION ALL SELECT 'acts', count(*)::integer FROM partners.acts
       UNION ALL SELECT 'redeliveries', count(*)::integer FROM webhooks.redelivery_acts`,
    );
    return Object.fromEntries(rows.map((row) => [row.what, row.count]));
  };
  const before = { endpoints: 60, wishes: 60, questions: 60, acts: 180, redeliveries: 2 };
  assert.deepEqual(await count(), before);
  // Made while one of them was there: the audit compares it with what that wanted.
  const old = 'UPDATE webhooks.deliveries SET created_at = now() - $1::integer * interval';
  await owner.query(`${old} '1 day'`, [92]);
  while ((await deliveries.reapSettings(7)) > 0);
  const without = { ...before, acts: 100, redeliveries: 1 };
  assert.deepEqual(await count(), without);
  await owner.query(`${old} '1 day'`, [90]);
  while ((await deliveries.reapSettings(7)) > 0);
  assert.deepEqual(await count(), { ...without, endpoints: 40, wishes: 40, questions: 40 });
  for (const statement of [
    'DELETE FROM partners.acts',
    'DELETE FROM partners.endpoint_wishes',
    'DELETE FROM webhooks.redelivery_acts',
  ]) {
    await assert.rejects(owner.query(statement), /history is only added to/, statement);
  }
});

test('API keys that ended leave after 400 days, and none that is good', async (context) => {
  const { owner, deliveries } = await queues(context, {});
  await owner.query(`INSERT INTO partners.partners (id) VALUES ('acme')`);
  const ago = (days: number | null) => `now() - ${days ?? 'NULL'} * interval '1 day'`;
  const keys: [name: string, expired: number | null, revoked: number | null][] = [
    ['good', null, null],
    ['good for a while', -1, null],
    ['revoked lately', null, 399],
    ['revoked long ago', null, 401],
    ['expired lately', 399, null],
    ['expired long ago', 401, null],
    ['expired long ago, then revoked', 401, 1],
  ];
  for (const [name, expired, revoked] of keys) {
    await owner.query(
      `INSERT INTO partners.api_keys
         (sha256, partner_id, name, created_at, expires_at, revoked_at)
       VALUES (sha256($1::text::bytea), 'acme', $1, now() - interval '500 days', ${ago(expired)},
               ${ago(revoked)})`,
      [name],
    );
  }
  while ((await deliveries.reapSettings(2)) > 0);
  const left = await owner.query<{ name: string }>(
    'SELECT name FROM partners.api_keys ORDER BY name',
  );
  assert.deepEqual(
    left.map(({ name }) => name),
    ['expired lately', 'good', 'good for a while', 'revoked lately'],
  );
});

test('rates of whoever has rested are forgotten, and those that are spent are not', async (context) => {
  const { owner, deliveries, leaseBy } = await queues(context, { acme: 5, globex: 5 });
  await leaseBy({ partner: { aSecond: 1 } });
  await owner.query(`UPDATE notifier.send_rates SET busy_until = now() + interval '1 hour'
    WHERE name = 'acme'`);
  await owner.query(`UPDATE notifier.send_rates SET busy_until = now() - interval '1 second'
    WHERE name <> 'acme'`);
  await deliveries.reap(retention, 10);
  const left = await owner.query('SELECT kind, name FROM notifier.send_rates');
  assert.deepEqual(left, [{ kind: 'partner', name: 'acme' }]);
});

test('a sender cannot change what a webhook says, to whom it goes, or under which id', async (context) => {
  const { database } = await queues(context, { acme: 1 });
  for (const column of ['event_id', 'partner_id', 'txn_id', 'body', 'created_at']) {
    const statement = `UPDATE webhooks.deliveries SET ${column} = ${column}`;
    await assert.rejects(database.query(statement), /permission denied/, statement);
  }
  const settled = `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body, state, finished_at)
    VALUES (gen_random_uuid(), 'acme', gen_random_uuid(), '{}', 'delivered', now())`;
  await assert.rejects(database.query(settled), /permission denied/);
});

test('the notifier deletes deliveries by the reaper only', async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_notifier');
  await assert.rejects(database.query('DELETE FROM webhooks.deliveries'), /permission denied/);
  for (const kept of [`'1 hour', '2 days'`, `'2 days', '1 hour'`]) {
    await assert.rejects(database.query(`SELECT webhooks.reap_deliveries(${kept}, 1)`), /a day/);
  }
});

const rowsOf = `SELECT ordinal, state, endpoint_id AS endpoint FROM webhooks.deliveries
  ORDER BY event_id, ordinal`;

test('what waited for a first endpoint is its oldest’s that wants it, and what none wants ends', async (context) => {
  const { database, owner, deliveries, lease } = await queues(context, {});
  await owner.query(`INSERT INTO partners.partners (id) VALUES ('acme')`);
  await insert(database, 'acme', 2);
  await owner.query(`UPDATE webhooks.deliveries SET state = 'parked'`);
  await owner.query(`UPDATE webhooks.deliveries SET body = '{"type":"refund.failed"}'
    WHERE event_id = (SELECT min(event_id::text)::uuid FROM webhooks.deliveries)`);
  await addEndpoint(owner, 'acme', { host: 'a.example', wants: ['payment.succeeded'] });
  await owner.query(isGone);
  assert.equal(await deliveries.release(10), 0, 'it is not open');
  const id = await addEndpoint(owner, 'acme', { host: 'b.example', wants: ['payment.failed'] });
  assert.equal(await deliveries.release(10), 2);
  assert.equal(await deliveries.release(10), 0);
  assert.deepEqual(
    (await owner.query<{ state: string }>(rowsOf)).map((each) => each.state).sort(),
    ['pending', 'unwanted'],
  );
  assert.deepEqual(
    (await lease()).map(({ endpointId, host }) => [endpointId, host]),
    [[id, 'b.example']],
  );
});

test('what waits for an endpoint that is deleted, or was given up there, is canceled, and what is under way comes to its end', async (context) => {
  const { database, owner, deliveries, lease } = await queues(context, { acme: 5 });
  const other = await addEndpoint(owner, 'acme', { host: 'other.example' });
  const [one, two] = await lease({ deliveriesMax: 2 });
  for (const state of ['parked', 'failed']) {
    await owner.query(
      `UPDATE webhooks.deliveries
       SET state = $1, finished_at = CASE $1 WHEN 'failed' THEN now() END
       WHERE event_id = (SELECT event_id FROM webhooks.deliveries
                         WHERE state = 'pending' AND lease_owner IS NULL LIMIT 1)`,
      [state],
    );
  }
  await owner.query(`SELECT partners.delete_webhook_endpoint('acme', $1)`, [one!.endpointId]);
  assert.deepEqual([await deliveries.release(10), await deliveries.release(10)], [3, 0]);
  assert.equal(await deliveries.record(one!, delivered), 'delivered');
  assert.equal(await deliveries.record(two!, notDelivered), 'canceled');
  assert.deepEqual(await lease(), []);
  await insert(database, 'acme', 1);
  assert.deepEqual(
    (await lease()).map(({ endpointId }) => endpointId),
    [other],
  );
});

test('an endpoint that does not answer keeps no slot from the others of its partner', async (context) => {
  const { database, owner, leaseBy } = await queues(context, { acme: 20 });
  const other = await addEndpoint(owner, 'acme', { host: 'other.example' });
  const ten = { partner: { inFlight: 10 } };
  assert.equal((await leaseBy(ten, { leaseMs: anHour })).length, 5);
  await database.query(`INSERT INTO webhooks.deliveries (event_id, partner_id, endpoint_id, txn_id, body)
    SELECT gen_random_uuid(), 'acme', '${other}', gen_random_uuid(), '{}' FROM generate_series(1, 20)`);
  const leased = await leaseBy(ten);
  assert.deepEqual(
    [leased.length, new Set(leased.map((each) => each.endpointId))],
    [5, new Set([other])],
  );
});
