import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createTestDatabase, type LostAnswerCase, testLostAnswers } from '@triplock/testing';
import { openDeliveries, type AttemptRecord, type LeasedDelivery } from './deliveries.ts';
import {
  addEndpoint,
  anHour,
  delivered,
  insert,
  manyRates,
  notDelivered,
  queues,
  retention,
  setEndpoint,
} from './test/webhooks.ts';

function partnersOf(leased: readonly { partnerId: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { partnerId } of leased) counts[partnerId] = (counts[partnerId] ?? 0) + 1;
  return counts;
}

test('senders that lease at the same time never have the same delivery', async (context) => {
  const { lease } = await queues(context, { acme: 200, globex: 200 });
  const leases = await Promise.all(
    Array.from({ length: 8 }, (_, sender) => lease({ owner: `s${sender}`, deliveriesMax: 100 })),
  );
  const ids = leases.flat().map(({ eventId }) => eventId);
  assert.equal(new Set(ids).size, ids.length);
});

test('a long queue of one partner leaves slots to the others', async (context) => {
  const { leaseBy } = await queues(context, { acme: 500, globex: 3, zeta: 1 });
  const leased = await leaseBy({ partner: { inFlight: 10 } }, { deliveriesMax: 20 });
  assert.deepEqual(partnersOf(leased), { acme: 10, globex: 3, zeta: 1 });
});

test('few slots are shared evenly and not in the order of names', async (context) => {
  const { lease } = await queues(context, { acme: 50, globex: 50, zeta: 50 });
  assert.deepEqual(partnersOf(await lease({ deliveriesMax: 6 })), { acme: 2, globex: 2, zeta: 2 });
});

test('of one partner what is due for the longest is sent first, and of several who waits for the longest', async (context) => {
  const { owner, lease, leaseBy } = await queues(context, { acme: 4, globex: 1 });
  await owner.query(`UPDATE webhooks.deliveries AS delivery
    SET next_attempt_at = now() - nth * interval '1 minute'
    FROM (SELECT event_id, row_number() OVER (ORDER BY partner_id, event_id) AS nth
          FROM webhooks.deliveries) AS numbered
    WHERE delivery.event_id = numbered.event_id`);
  const due = await owner.query<{ id: string }>(
    'SELECT event_id AS id FROM webhooks.deliveries ORDER BY next_attempt_at',
  );
  const leased = [
    await lease({ deliveriesMax: 1 }),
    await leaseBy({ partner: { inFlight: 1 } }),
    await lease({ deliveriesMax: 2 }),
  ];
  const [globex, first, second, third] = due.map(({ id }) => id);
  assert.deepEqual(
    leased.map((some) => some.map(({ eventId }) => eventId as string).sort()),
    [[globex], [first], [second, third].sort()],
  );
});

test('what a partner has in flight counts to its share, whoever sends it, until its lease ends', async (context) => {
  const { database, leaseBy } = await queues(context, { acme: 50, globex: 50 });
  const ten = { partner: { inFlight: 10 } };
  await leaseBy({ partner: { inFlight: 7 } }, { owner: 'another' });
  assert.deepEqual(partnersOf(await leaseBy(ten)), { acme: 3, globex: 3 });
  assert.deepEqual(await leaseBy(ten), []);
  // The other sender is dead: what it had is due again.
  await database.query(
    `UPDATE webhooks.deliveries SET next_attempt_at = now()
     WHERE lease_owner = 'another' AND partner_id = 'acme'`,
  );
  assert.deepEqual(partnersOf(await leaseBy(ten)), { acme: 7 });
});

test('a slot that becomes free goes to who has least in flight, however long the others wait', async (context) => {
  const { database, owner, leaseBy } = await queues(context, { acme: 50, zeta: 50 });
  await leaseBy({ partner: { inFlight: 8 } });
  await setEndpoint(owner, 'globex');
  await insert(database, 'globex', 1);
  await owner.query(`UPDATE webhooks.deliveries SET next_attempt_at = now() - interval '1 hour'
    WHERE partner_id <> 'globex' AND lease_owner IS NULL`);
  const leased = await leaseBy({ partner: { inFlight: 10 } }, { deliveriesMax: 1 });
  assert.deepEqual(partnersOf(leased), { globex: 1 });
});

/** Many senders at the same time, what all of them got, and in how many seconds. */
async function byMany(lease: (wish: { owner: string }) => Promise<LeasedDelivery[]>) {
  const started = performance.now();
  const leases = Array.from({ length: 6 }, (_, sender) => lease({ owner: `s${sender}` }));
  const got = partnersOf((await Promise.all(leases)).flat());
  return { got, seconds: (performance.now() - started) / 1_000 };
}

/** As many at once as in a second, and then so many a second. */
function isInRate(begun: number | undefined, aSecond: number, seconds: number): void {
  assert.ok(begun! >= aSecond && begun! <= aSecond * (1 + seconds), `${begun} in ${seconds} s`);
}

test('a partner begins no more in a second than its rate, whoever sends, and delays nobody else', async (context) => {
  const { database, owner, leaseBy } = await queues(context, { acme: 500, globex: 3 });
  const five = { partner: { aSecond: 5 } };
  const first = await byMany((wish) => leaseBy(five, wish));
  isInRate(first.got['acme'], 5, first.seconds);
  assert.equal(first.got['globex'], 3);

  const setRates = `UPDATE notifier.send_rates SET busy_until = now() + $1::interval`;
  const spend = (rest: string) => owner.query(setRates, [rest]);
  await spend('1 hour');
  assert.deepEqual(await leaseBy(five), []);
  const notifier = openDeliveries(database, manyRates);
  assert.deepEqual(await notifier.spentRates(), { partners: 2, hosts: 2, endpoints: 0 });
  // After a rest, however long, there is as much at once as in a second.
  await spend('-1 hour');
  assert.deepEqual(await notifier.spentRates(), { partners: 0, hosts: 0, endpoints: 0 });
  assert.equal((await leaseBy(five)).length, 5);
});

test('partners that aim at one host share its limits evenly, whoever sends, and no other host waits', async (context) => {
  const lengths = { acme: 90, globex: 90, zeta: 90, other: 40 };
  const { database, owner, leaseBy } = await queues(context, lengths);
  for (const partner of ['acme', 'globex', 'zeta']) {
    await setEndpoint(owner, partner, 'victim.example');
  }
  const inFlight = await byMany((wish) => leaseBy({ host: { inFlight: 9 } }, wish));
  assert.deepEqual(inFlight.got, { acme: 3, globex: 3, zeta: 3, other: 9 });

  await database.query('DELETE FROM send_rates');
  const { got, seconds } = await byMany((wish) => leaseBy({ host: { aSecond: 9 } }, wish));
  isInRate(got['acme']! + got['globex']! + got['zeta']!, 9, seconds);
  for (const partner of ['acme', 'globex', 'zeta']) assert.ok(got[partner]! >= 3, partner);
  isInRate(got['other'], 9, seconds);
});

test('senders that lease at the same time have no more in flight to a partner than it may have', async (context) => {
  const { leaseBy } = await queues(context, { acme: 100 });
  const ten = { partner: { inFlight: 10 } };
  assert.deepEqual((await byMany((wish) => leaseBy(ten, wish))).got, { acme: 10 });
});

test('an endpoint that is disabled has no part of what its partner may have in flight', async (context) => {
  const { owner, leaseBy } = await queues(context, { acme: 50 });
  const other = await addEndpoint(owner, 'acme', { host: 'other.example' });
  const eight = { partner: { inFlight: 8 } };
  assert.equal((await leaseBy(eight)).length, 4);
  await owner.query(
    'UPDATE partners.webhook_endpoints SET disabled_at = now() WHERE endpoint_id = $1',
    [other],
  );
  assert.equal((await leaseBy(eight)).length, 4);
});

test('what is asked for again begins with short pauses again', async (context) => {
  const { owner, lease } = await queues(context, { acme: 1 });
  const failedBefore = async () => {
    const [{ attempt, failedBefore: failed } = assert.fail('nothing is due')] = await lease({
      leaseMs: 0,
    });
    return [attempt, failed];
  };
  assert.deepEqual(
    [await failedBefore(), await failedBefore()],
    [
      [1, 0],
      [2, 1],
    ],
  );
  await owner.query('UPDATE webhooks.deliveries SET lease_owner = NULL');
  await owner.query(`SELECT webhooks.redeliver('acme', event_id, 1::smallint)
    FROM webhooks.deliveries`);
  assert.deepEqual(
    [await failedBefore(), await failedBefore()],
    [
      [3, 0],
      [4, 1],
    ],
  );
});

test('a leased delivery is due again when its lease has ended, and not before', async (context) => {
  const { lease } = await queues(context, { acme: 1 });
  assert.equal((await lease({ leaseMs: 0 })).length, 1);
  assert.equal((await lease({ leaseMs: anHour })).length, 1);
  assert.deepEqual(await lease(), []);
});

test('a sender that was overtaken records nothing', async (context) => {
  const { database, deliveries, lease } = await queues(context, { acme: 1 });
  const [first] = await lease({ owner: 'a', leaseMs: 0 });
  const [second] = await lease({ owner: 'b' });
  assert.deepEqual([first!.attempt, second!.attempt], [1, 2]);
  assert.equal(await deliveries.record(first!, delivered), 'overtaken');
  assert.deepEqual(await database.query('SELECT state, lease_owner FROM webhooks.deliveries'), [
    { state: 'pending', lease_owner: 'b' },
  ]);
  assert.equal(await deliveries.record(second!, delivered), 'delivered');
  assert.equal(await deliveries.record(second!, notDelivered), 'overtaken');
  const attempts = 'SELECT attempt, status, error, took_ms FROM webhooks.delivery_attempts';
  assert.deepEqual(await database.query(attempts), [
    { attempt: 2, status: 204, error: null, took_ms: 13 },
  ]);
});

test('a failed attempt comes again after its pause, and what is delivered never does', async (context) => {
  const { deliveries, lease } = await queues(context, { acme: 1 });
  const [first] = await lease();
  assert.equal(await deliveries.record(first!, { ...notDelivered, nextInMs: 0 }), 'pending');
  const [second] = await lease();
  assert.equal(second!.attempt, 2);
  assert.equal(await deliveries.record(second!, { ...notDelivered, nextInMs: anHour }), 'pending');
  assert.deepEqual(await lease(), []);
});

test('attempts that end together are recorded each for itself', async (context) => {
  const { owner, deliveries, lease } = await queues(context, { acme: 3 });
  const [one, two, three] = await lease({ leaseMs: 0 });
  const again = await lease();
  const twoAgain = again.find(({ eventId }) => eventId === two!.eventId)!;
  const threeAgain = again.find(({ eventId }) => eventId === three!.eventId)!;
  const recorded = await Promise.all([
    deliveries.record(one!, delivered),
    deliveries.record(two!, notDelivered),
    deliveries.record(twoAgain, delivered),
    deliveries.record(threeAgain, notDelivered),
  ]);
  assert.deepEqual(recorded, ['overtaken', 'overtaken', 'delivered', 'pending']);
  const logged = `SELECT event_id, attempt, status FROM webhooks.delivery_attempts ORDER BY status`;
  assert.deepEqual(await owner.query(logged), [
    { event_id: two!.eventId, attempt: 2, status: 204 },
    { event_id: three!.eventId, attempt: 2, status: 500 },
  ]);
});

test('a delivery is given up when its next attempt would come too late', async (context) => {
  const { owner, deliveries, lease } = await queues(context, { acme: 2 });
  await owner.query(`UPDATE webhooks.deliveries SET created_at = now() - interval '3 days'`);
  const [one, other] = await lease();
  const soon = { ...notDelivered, nextInMs: anHour, giveUpAfterMs: 2 * anHour };
  assert.equal(await deliveries.record(one!, soon), 'pending');
  const late = { ...notDelivered, nextInMs: 3 * anHour, giveUpAfterMs: 2 * anHour };
  assert.equal(await deliveries.record(other!, late), 'failed');
  assert.deepEqual(await deliveries.backlog().then(({ waiting }) => waiting), 1);
});

test('however much waits, a bounded number is counted, and one partner hides no other', async (context) => {
  const { database, owner, deliveries } = await queues(context, { acme: 1_500, globex: 3 });
  await insert(database, 'zeta', 1_200);
  await owner.query(`UPDATE webhooks.deliveries SET state = 'parked' WHERE partner_id = 'zeta'`);
  await owner.query(`UPDATE webhooks.deliveries SET created_at = now() - interval '1 hour'
    WHERE partner_id = 'globex'`);
  const { waiting, parked, oldestSeconds } = await deliveries.backlog();
  assert.deepEqual([waiting, parked], [1_003, 1_000]);
  assert.ok(oldestSeconds >= 3_600);
});

/** One webhook that waits; only what `deliveries` asks goes by the relay. */
async function oneByRelay(context: TestContext) {
  const store = await createTestDatabase(context);
  const past = store.open('triplock_notifier');
  await setEndpoint(store.open(), 'acme');
  await insert(past, 'acme', 1);
  const { database, relay } = await store.openByRelay('triplock_notifier');
  const stored = () =>
    past.query(`
      SELECT delivery.state, delivery.attempts, attempt.attempt, attempt.status
      FROM webhooks.deliveries AS delivery LEFT JOIN webhooks.delivery_attempts AS attempt USING (event_id)`);
  const grow = () =>
    store.open().query(`UPDATE webhooks.deliveries SET finished_at = now() - interval '31 days'`);
  const [deliveries, direct] = [database, past].map((each) => openDeliveries(each, manyRates));
  return { relay, deliveries: deliveries!, past: direct!, stored, grow };
}

const one = { owner: 'a', leaseMs: anHour, deliveriesMax: 10 };

function recording(attempt: AttemptRecord): LostAnswerCase<OneByRelay> {
  return {
    prepare: async ({ deliveries, past, stored }) => {
      const [leased] = (await past.lease(one)).leased;
      return { operation: () => deliveries.record(leased!, attempt), stored };
    },
    // Recorded by the call that heard nothing of it: the lease is over.
    orElse: ['overtaken'],
  };
}

type OneByRelay = Awaited<ReturnType<typeof oneByRelay>>;

testLostAnswers<OneByRelay>(
  {
    'recording a webhook that was delivered': recording(delivered),
    'recording an attempt that failed': recording(notDelivered),
    'leasing a webhook': {
      prepare: async ({ deliveries, past, stored }) => ({
        operation: async () => (await deliveries.lease({ ...one, leaseMs: 0 })).leased.length,
        // It is not sent by the call that heard nothing of it, and not lost: it is due again.
        stored: async () => [(await past.lease(one)).leased.length, (await stored()).length],
      }),
    },
    'removing what was delivered': {
      prepare: async ({ deliveries, past, stored, grow }) => {
        const [leased] = (await past.lease(one)).leased;
        await past.record(leased!, delivered);
        await grow();
        return { operation: () => deliveries.reap(retention, 10), stored };
      },
      orElse: [0],
    },
  },
  oneByRelay,
);
