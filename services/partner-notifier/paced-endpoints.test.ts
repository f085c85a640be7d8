import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { EventId, Fingerprint, IdempotencyKey, PartnerId, TxnId } from '@triplock/payments';
import { eventually } from '@triplock/testing';
import { openDeliveries, type AttemptRecord } from './deliveries.ts';
import {
  addEndpoint,
  aNotifier,
  anHour,
  aReceiver,
  delivered,
  insert,
  manyRates,
  noRoom,
  notDelivered,
  queues,
  setEndpoint,
} from './test/webhooks.ts';
import { retryAfterOf } from './webhook-client.ts';

const acme = 'acme' as PartnerId;

test('Retry-After is seconds or a date, an hour at most, and of a 429 or 503 alone', () => {
  const now = Date.parse('2026-11-28T10:00:00Z');
  const of = (text: string | undefined, statusCode = 429) =>
    retryAfterOf({ statusCode, headers: { 'retry-after': text } }, now);
  assert.equal(of('120'), 120_000);
  assert.equal(of('120', 503), 120_000);
  assert.equal(of('Sat, 28 Nov 2026 10:02:00 GMT'), 120_000);
  assert.equal(of('Sat, 28 Nov 2026 09:00:00 GMT'), 0);
  for (const late of ['3601', '99999999999999999999', 'Sun, 29 Nov 2026 10:00:00 GMT']) {
    assert.equal(of(late), anHour, late);
  }
  for (const status of [500, 502, 504, 301]) assert.equal(of('120', status), undefined);
  for (const nonsense of [
    undefined,
    '',
    'soon',
    '-1',
    '1.5',
    '0x10',
    '1, 2',
    'Sat, 28 Nov 2026 25:00:00 GMT',
    '2026-11-28',
  ]) {
    assert.equal(of(nonsense), undefined, nonsense);
  }
});

const dueInS = `SELECT round(extract(epoch FROM next_attempt_at - now()))::integer AS s
  FROM webhooks.deliveries`;

test('a delivery comes no sooner than its server says, and no later than its time for attempts', async (context) => {
  const { owner, deliveries, lease } = await queues(context, { acme: 1 });
  const after = async (wish: { nextInMs: number; retryAfterMs?: number }, begun = '0 s') => {
    await owner.query('DELETE FROM notifier.endpoint_paces');
    await owner.query(`UPDATE webhooks.deliveries SET next_attempt_at = now()`);
    const [leased] = await lease();
    await owner.query('UPDATE webhooks.deliveries SET first_attempt_at = now() - $1::interval', [
      begun,
    ]);
    const state = await deliveries.record(leased!, { ...notDelivered, status: 503, ...wish });
    const [{ s } = assert.fail()] = await owner.query<{ s: number }>(dueInS);
    return [state, s];
  };
  const soon = { nextInMs: 5_000, retryAfterMs: 600_000 };
  assert.deepEqual(await after(soon), ['pending', 600]);
  assert.deepEqual(await after({ ...soon, retryAfterMs: 1_000 }), ['pending', 5]);
  assert.deepEqual(await after({ nextInMs: 5_000 }), ['pending', 5]);
  // In the last five minutes of its day, and after its day.
  assert.deepEqual(await after(soon, '23 hours 55 minutes'), ['pending', 300]);
  assert.equal((await after(soon, '24 hours'))[0], 'failed');
});

test('an endpoint is left alone until its server says, whoever sends, and no other of its partner waits', async (context) => {
  const { owner, database, deliveries, lease } = await queues(context, { acme: 9 });
  const [one] = await lease({ deliveriesMax: 1 });
  const turnedAway = { ...notDelivered, status: 429, retryAfterMs: 600_000 };
  assert.equal(await deliveries.record(one!, turnedAway), 'pending');
  const other = await addEndpoint(owner, acme, { host: 'acme.example' });
  await database.query(
    `INSERT INTO webhooks.deliveries (event_id, partner_id, endpoint_id, txn_id, body)
     SELECT gen_random_uuid(), 'acme', $1, gen_random_uuid(), '{}' FROM generate_series(1, 50)`,
    [other],
  );
  const leased = await lease({ owner: 'another' });
  assert.equal(leased.length, 50);
  assert.deepEqual(new Set(leased.map(({ endpointId }) => endpointId)), new Set([other]));
  assert.partialDeepStrictEqual(await deliveries.spentRates(), { endpoints: 1 });

  // It is over; then few are begun, ten a second, because nobody knows yet how many it takes.
  const over = `UPDATE notifier.endpoint_paces SET paused_until = now()`;
  await owner.query(over);
  assert.equal((await lease()).length, 2);
  assert.deepEqual(await lease({ owner: 'another' }), []);
  // With another secret, or the same URL once more, it is the same server.
  await owner.query(`UPDATE notifier.endpoint_paces SET paused_until = now() + interval '1 hour'`);
  await owner.query(
    `SELECT FROM partners.rotate_secret_as('acme', NULL, 'key', $1, 'test', NULL, true)`,
    [{ id: '2', key: 'one', box: '' }],
  );
  const setUrl = (host: string) =>
    owner.query(
      `SELECT FROM partners.change_webhook_endpoint(
         'acme', partners.first_webhook_endpoint('acme'), $1, 'test')`,
      [{ url: `https://${host}`, host }],
    );
  await setUrl('acme.example');
  assert.deepEqual(await lease(), []);
  // Another URL may be another server.
  await setUrl('moved.example');
  await owner.query(
    'UPDATE partners.webhook_endpoints SET verified_url = url, verified_at = now()',
  );
  assert.equal((await lease()).length, 6);
});

test('while an endpoint is to be left alone there is nothing that waits for room, made or due', async (context) => {
  const { owner, database, deliveries, lease } = await queues(context, { acme: 3 });
  const [one] = await lease({ deliveriesMax: 1 });
  const turnedAway = { ...notDelivered, status: 429, retryAfterMs: 600_000 };
  await deliveries.record(one!, turnedAway);
  const all = { owner: 'one', leaseMs: anHour, deliveriesMax: 10 };
  const nothing = { leased: [], leftOf: [] };
  assert.deepEqual(await deliveries.lease(all), nothing);
  const made = {
    eventId: randomUUID() as EventId,
    partnerId: acme,
    txnId: randomUUID() as TxnId,
    type: 'payment.failed',
    body: '{}',
    traceparent: null,
  } as const;
  const read = await database.transaction((tx) => deliveries.make(tx, [made], all));
  assert.deepEqual(await read(), nothing);
  assert.deepEqual(
    await owner.query('SELECT state, count(*)::integer FROM webhooks.deliveries GROUP BY state'),
    [{ state: 'pending', count: 4 }],
  );

  // Another of its endpoints has more than there is room for.
  const other = await addEndpoint(owner, acme, { host: 'other.example' });
  await database.query(
    `INSERT INTO webhooks.deliveries (event_id, partner_id, endpoint_id, txn_id, body)
     SELECT gen_random_uuid(), 'acme', $1, gen_random_uuid(), '{}' FROM generate_series(1, 5)`,
    [other],
  );
  const { leased, leftOf } = await deliveries.lease({ ...all, deliveriesMax: 2 });
  assert.deepEqual([leased.length, leftOf], [2, [acme]]);
  await owner.query('UPDATE notifier.endpoint_paces SET paused_until = now()');
  assert.equal((await deliveries.lease(all)).leased.length, 5);
});

test('a pace halves once for all that was begun before, grows with what is taken, and is forgotten', async (context) => {
  const { owner, database, deliveries, lease } = await queues(context, { acme: 0 });
  await setEndpoint(owner, acme);
  const pace = async () => {
    const [row] = await owner.query<{ pace: number }>(
      'SELECT a_second AS pace FROM notifier.endpoint_paces',
    );
    return row?.pace;
  };
  const some = async (attempts: number, wish = {}, tookMs = 0) => {
    await insert(database, acme, attempts);
    await owner.query(`UPDATE notifier.send_rates SET busy_until = '-infinity'`);
    await owner.query(`UPDATE webhooks.deliveries SET next_attempt_at = now() - interval '1 s'
      WHERE state = 'pending' AND lease_owner IS NULL`);
    const leased = await lease({ deliveriesMax: attempts });
    assert.equal(leased.length, attempts);
    const outcome = { ...delivered, ...wish, tookMs };
    await Promise.all(leased.map((each) => deliveries.record(each, outcome)));
    return pace();
  };
  const tooMuch = { ...notDelivered, nextInMs: anHour, status: 504 };
  assert.equal(await some(20), undefined);
  for (const status of [500, 503, 404])
    assert.equal(await some(1, { ...tooMuch, status }), undefined);
  assert.equal(await some(5, tooMuch), 10);
  // These were begun before it was known.
  assert.equal(await some(1, { ...tooMuch, status: 502 }, 60_000), 10);
  assert.equal(await some(1, { ...tooMuch, status: 429 }), 5);
  for (let taken = 0; taken < 5; taken += 1) await some(1);
  assert.equal(Math.round((await pace())! * 10), 55);
  await owner.query('UPDATE notifier.endpoint_paces SET a_second = 40');
  assert.equal(Math.round((await some(10))! * 10), 410);
  await owner.query(`UPDATE notifier.endpoint_paces SET slowed_at = now() - interval '9 minutes'`);
  const keep = { deliveredMs: 24 * anHour, undeliveredMs: 24 * anHour };
  await deliveries.reap(keep, 1);
  assert.ok(await pace());
  await owner.query(`UPDATE notifier.endpoint_paces SET slowed_at = now() - interval '11 minutes'`);
  await deliveries.reap(keep, 1);
  assert.equal(await pace(), undefined);
});

test('of two senders that each slow what the other quickens, none waits for ever', async (context) => {
  const { owner, database, lease } = await queues(context, { acme: 2, globex: 2 });
  await owner.query(`INSERT INTO notifier.endpoint_paces
    SELECT endpoint_id, 10, '-infinity', now() - interval '1 hour' FROM partners.open_webhook_endpoints`);
  const leased = await lease();
  const [low, , , high] = leased.map(({ endpointId }) => endpointId).sort();
  const [ofLow, ofHigh] = [true, false].map((isLow) =>
    leased.filter(({ endpointId }) => (endpointId === low) === isLow),
  );
  const tooMuch = { ...notDelivered, status: 429 };
  /** A sender of its own, whose attempts at both end together. */
  const record = (nth: number, ofFirst: AttemptRecord, ofSecond: AttemptRecord) => {
    const deliveries = openDeliveries(database, manyRates);
    return Promise.all([
      deliveries.record(ofLow![nth]!, ofFirst),
      deliveries.record(ofHigh![nth]!, ofSecond),
    ]);
  };
  const waiting = `SELECT DISTINCT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE NOT granted AND datname = current_database()`;
  let both: Promise<unknown>;
  await owner.transaction(async (tx) => {
    const lock = 'SELECT FROM notifier.endpoint_paces WHERE endpoint_id = $1 FOR UPDATE';
    await tx.query(lock, [high]);
    const one = record(0, tooMuch, delivered);
    await eventually(async () => (await owner.query(waiting)).length === 1);
    both = Promise.all([one, record(1, delivered, tooMuch)]);
    await eventually(async () => (await owner.query(waiting)).length === 2);
  });
  assert.deepEqual(await both!, [
    ['pending', 'delivered'],
    ['delivered', 'pending'],
  ]);
  const paces = await owner.query<{ pace: number }>(
    'SELECT a_second AS pace FROM notifier.endpoint_paces ORDER BY endpoint_id',
  );
  assert.deepEqual(
    paces.map(({ pace }) => Math.round(pace * 100)),
    [510, 505],
  );
});

test('a server that takes fifty a second turns few away, gets all, and slows no other endpoint', async (context) => {
  const limits = { inFlightMax: 64, perPartnerMax: 64 };
  const { endpoint, endpoints, verify, notifyAll, retryBy, sender, overtaker, owner } =
    await aNotifier(context, limits);
  retryBy({ firstMs: 500, maxMs: 10_000, giveUpAfterMs: anHour });
  const [limited, free] = [await aReceiver(context), await aReceiver(context)];
  let [window, inWindow, turnedAway] = [0, 0, 0];
  limited.answerWith((response) => {
    const now = Math.floor(performance.now() / 1_000);
    [window, inWindow] = now === window ? [window, inWindow + 1] : [now, 1];
    if (inWindow <= 50) return void response.writeHead(204).end();
    turnedAway += 1;
    response.writeHead(429, { 'retry-after': '1' }).end();
  });
  await endpoint(acme, limited.url);
  const made = await endpoints.make({
    partnerId: acme,
    url: free.url,
    wants: 'all',
    key: 'free' as IdempotencyKey,
    fingerprint: 'free' as Fingerprint,
  });
  assert.equal(made.outcome, 'made');
  await verify();
  const events = 400;
  await notifyAll(
    Array.from({ length: events }, () => acme),
    noRoom,
  );

  // Two processes, as far as these are concerned.
  const taken = () => limited.received.length - turnedAway;
  let freeAfter = 0;
  const started = performance.now();
  const run = async (by: typeof sender) => {
    while (taken() < events && performance.now() - started < 120_000) {
      if ((await by.pass()) === 0) await by.somethingWithin(100);
      if (free.received.length === events) freeAfter ||= taken();
    }
    await by.settled();
  };
  await Promise.all([run(sender), run(overtaker)]);
  const seconds = Math.round((performance.now() - started) / 1_000);
  context.diagnostic(
    `${events} in ${seconds} s, ${turnedAway} turned away; the other had all after ${freeAfter}`,
  );
  assert.equal(taken(), events, 'they were not all delivered');
  // Those of the first moment, when nobody knew, and a few whenever more was tried.
  assert.ok(turnedAway < 64 + events / 10, `${turnedAway} were turned away`);
  assert.ok(freeAfter > 0 && freeAfter < events / 2, `the other had to wait: ${freeAfter}`);
  const states = await owner.query('SELECT DISTINCT state FROM webhooks.deliveries');
  assert.deepEqual(states, [{ state: 'delivered' }]);
});
