import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { eventOf } from '@triplock/contracts';
import { openInbox } from '@triplock/inbox';
import {
  aPayment,
  createTestDatabase,
  eventually,
  succeeded,
  testLostAnswers,
} from '@triplock/testing';
import {
  notifyPartners,
  openDeliveries,
  type Deliveries,
  type Notice,
  type LeaseRequest,
  type ReadLease,
  type WhoSends,
} from './deliveries.ts';
import {
  aNotifier,
  aReceiver,
  anHour,
  delivered,
  insert,
  manyRates,
  queues,
  setEndpoint,
} from './test/webhooks.ts';

const many = (partner: string, events: number) => Array.from({ length: events }, () => partner);

test('what events make is sent without a look for it, and leaves nothing to look for', async (context) => {
  const { sender, endpoint, notifyAll, states } = await aNotifier(context);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  const ids = await notifyAll(['acme', 'acme', 'nobody'], sender);
  await sender.settled();
  const received = receiver.received.map(({ headers }) => headers['webhook-id']);
  assert.deepEqual(received.sort(), ids.slice(0, 2).sort());
  const [{ body } = assert.fail('nothing came')] = receiver.received;
  assert.equal((JSON.parse(body) as { type: string }).type, 'payment.succeeded');
  assert.deepEqual((await states()).sort(), ['delivered 1', 'delivered 1', 'parked 0']);
  assert.equal(await sender.somethingWithin(0), 0);
});

test('nothing is sent before its event is committed, nor what was never committed, which keeps no slot', async (context) => {
  const { sender, owner, endpoint, notifyAll, states } = await aNotifier(context, {
    inFlightMax: 1,
  });
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  let seen: Promise<string[]> | undefined;
  const watching: WhoSends = {
    reserve() {
      const reserved = sender.reserve();
      const take = (lease: ReadLease) => {
        seen = states();
        reserved.take(lease);
      };
      return { ...reserved, take };
    },
  };
  await owner.query(`
    CREATE FUNCTION notifier.refuse() RETURNS trigger LANGUAGE plpgsql
      AS $$ BEGIN RAISE 'not at the commit'; END $$;
    CREATE CONSTRAINT TRIGGER refused AFTER INSERT ON webhooks.deliveries
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION notifier.refuse()`);
  await assert.rejects(notifyAll(['acme'], watching), /not at the commit/);
  assert.deepEqual([seen, await states()], [undefined, []]);
  await owner.query('DROP TRIGGER refused ON webhooks.deliveries');
  const [eventId] = await notifyAll(['acme'], watching);
  await sender.settled();
  assert.deepEqual(await seen, ['pending 1']);
  assert.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    [eventId],
  );
});

test('what a notifier made and leased before it died is sent by another, once, when the lease ends', async (context) => {
  const { sender, overtaker, crashPoints, endpoint, notify, states } = await aNotifier(context, {
    leaseMs: 0,
  });
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  crashPoints.arm({ name: 'webhook.leased', action: { do: 'throw' } });
  const eventId = await notify('acme', sender);
  await sender.settled();
  assert.deepEqual([receiver.received.length, await states()], [0, ['pending 1']]);
  assert.equal(await overtaker.pass(), 1);
  await overtaker.settled();
  assert.deepEqual(await states(), ['delivered 2']);
  assert.deepEqual([await overtaker.pass(), await sender.pass()], [0, 0]);
  assert.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    [eventId],
  );
});

for (const [limit, rates] of Object.entries({
  'in flight to a partner': { partner: { inFlight: 5 } },
  'in flight to a host': { host: { inFlight: 5 } },
  'begun to a partner': { partner: { aSecond: 5 } },
  'begun to a host': { host: { aSecond: 5 } },
})) {
  test(`notifiers that send what they make at once have no more ${limit} than there may be`, async (context) => {
    const { sender, overtaker, endpoint, notifyAll, states } = await aNotifier(context, {
      perPartnerMax: 1_000,
      rates,
    });
    const receiver = await aReceiver(context);
    receiver.answerWith(() => undefined);
    await endpoint('acme', receiver.url);
    const started = performance.now();
    const both = [sender, overtaker];
    await Promise.all([...both, ...both].map((by) => notifyAll(many('acme', 8), by)));
    const seconds = limit.startsWith('begun') ? (performance.now() - started) / 1_000 : 0;
    const begun = (await states()).filter((state) => state === 'pending 1').length;
    assert.ok(begun >= 5 && begun <= 5 * (1 + seconds), `${begun} in ${seconds} s`);
    await eventually(async () => receiver.received.length === begun);
    for (const each of both) each.giveUp();
    await Promise.all(both.map((each) => each.settled()));
  });
}

test('a flood of one partner takes its share, leaves the others theirs, and is sent as it gets room', async (context) => {
  const { sender, endpoint, notifyAll } = await aNotifier(context, { inFlightMax: 32 });
  const [flooded, others] = [await aReceiver(context), await aReceiver(context)];
  const held: (() => void)[] = [];
  flooded.answerWith((response) => held.push(() => void response.writeHead(204).end()));
  await endpoint('acme', flooded.url);
  await endpoint('globex', others.url);
  await endpoint('zeta', others.url);
  await notifyAll([...many('acme', 30), 'globex'], sender);
  await notifyAll(['globex', ...many('acme', 30), 'zeta'], sender);
  await eventually(async () => others.received.length === 3 && held.length === 8);
  const answer = () => held.splice(0).forEach((each) => each());
  // It was woken when it heard that there is no room.
  await sender.somethingWithin(0);
  answer();
  assert.equal(await sender.somethingWithin(60_000), 1, 'nobody knows that there is room');
  await eventually(async () => {
    answer();
    await sender.pass();
    return flooded.received.length === 60;
  });
  answer();
  await sender.settled();
});

test('a look for what waits and what is made at once have no more under way than the sender may', async (context) => {
  const { sender, owner, endpoint, notify, notifyAll, states } = await aNotifier(context, {
    inFlightMax: 5,
  });
  const receiver = await aReceiver(context);
  const held: (() => void)[] = [];
  receiver.answerWith((response) => held.push(() => void response.writeHead(204).end()));
  await endpoint('acme', receiver.url);
  for (let waiting = 0; waiting < 5; waiting += 1) await notify('acme');
  const both = await owner.transaction(async (tx) => {
    // Who leases waits for whoever does, so that both have asked before either is answered.
    await tx.query(`SELECT pg_advisory_xact_lock(hashtextextended('lease_deliveries', 0))`);
    const begun = [sender.pass(), notifyAll(many('acme', 5), sender)];
    const waitingForIt = `SELECT FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event = 'advisory'`;
    await eventually(async () => (await owner.query(waitingForIt)).length === 2);
    return begun;
  });
  await Promise.all(both);
  await eventually(async () => held.length === 5);
  assert.equal((await states()).filter((state) => state === 'pending 1').length, 5);
  await eventually(async () => {
    for (const answer of held.splice(0)) answer();
    await sender.pass();
    return receiver.received.length === 10;
  });
  for (const answer of held.splice(0)) answer();
  await sender.settled();
});

test('what waits is sent before what was just made, with the body that it was made with', async (context) => {
  const { sender, endpoint, notify, states } = await aNotifier(context, { inFlightMax: 1 });
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  const waiting = await notify('acme');
  const made = await notify('acme', sender);
  await sender.settled();
  assert.deepEqual(await states(), ['delivered 1', 'pending 0']);
  assert.equal(await sender.pass(), 1);
  await sender.settled();
  assert.deepEqual(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    [waiting, made],
  );
  for (const { body } of receiver.received) assert.ok('data' in (JSON.parse(body) as object), body);
});

test('an event that has a delivery already leaves it as it is, and sends nothing', async (context) => {
  const { database, deliveries, lease } = await queues(context, { acme: 1 });
  const [{ eventId, partnerId, txnId } = assert.fail('nothing is due')] = await lease();
  const type = 'payment.succeeded';
  const again: Notice = { eventId, partnerId, txnId, type, body: '{}', traceparent: null };
  const request = { owner: 'b', leaseMs: anHour, deliveriesMax: 10 };
  const read = await database.transaction((tx) => deliveries.make(tx, [again], request));
  assert.deepEqual((await read()).leased, []);
  const rows = 'SELECT attempts, lease_owner, body FROM webhooks.deliveries';
  const body = '{"type":"payment.failed"}';
  assert.deepEqual(await database.query(rows), [{ attempts: 1, lease_owner: 'a', body }]);
});

test('a notifier that stands still before its commit holds up the others for seconds, and has sent nothing', async (context) => {
  const { database, deliveries, lease } = await queues(context, { acme: 1 });
  const standing = Promise.withResolvers<void>();
  const request = { owner: 'b', leaseMs: anHour, deliveriesMax: 10 };
  const holding = Promise.withResolvers<void>();
  const made = database.transaction(async (tx) => {
    await deliveries.make(tx, [], request);
    holding.resolve();
    await standing.promise;
  });
  await holding.promise;
  // The lease of the one that stands still went with its transaction.
  assert.equal((await lease()).length, 1);
  standing.resolve();
  await assert.rejects(made);
});

/** A partner with an endpoint, and deliveries that are made by a way that loses answers. */
async function madeByRelay(context: TestContext) {
  const store = await createTestDatabase(context);
  await setEndpoint(store.open(), 'acme');
  const past = store.open('triplock_notifier');
  const { database, relay } = await store.openByRelay('triplock_notifier');
  const deliveries = openDeliveries(database, manyRates);
  const request: LeaseRequest = { owner: 'b', leaseMs: anHour, deliveriesMax: 10 };
  let [reserved, taken, givenBack] = [0, 0, 0];
  const effect = notifyPartners(deliveries, {
    reserve() {
      reserved += 1;
      return { request, take: () => void (taken += 1), giveBack: () => void (givenBack += 1) };
    },
  });
  const stored = async () => {
    assert.ok(taken <= 1, `it was sent ${taken} times`);
    assert.equal(taken + givenBack, reserved, 'slots were kept, or given back twice');
    return past.query('SELECT event_id, state, attempts, lease_owner FROM webhooks.deliveries');
  };
  const inbox = openInbox(database, 'partner-notifier');
  return { relay, past, deliveries, receive: inbox.receive, effect, stored };
}

const coming = [{ ...eventOf(succeeded(aPayment())), payloadHash: 'hash' }];

testLostAnswers<Awaited<ReturnType<typeof madeByRelay>>>(
  {
    'making a webhook that is leased with it': {
      prepare: async ({ receive, effect, stored }) => ({
        operation: async () => (await receive(coming, effect)).map(({ outcome }) => outcome),
        stored,
      }),
      // It is not sent from memory by whoever heard nothing of the commit: the lease ends.
      orElse: [['duplicate']],
    },
    'releasing webhooks that were parked': {
      prepare: async ({ past, deliveries }) => {
        await insert(past, 'acme', 3);
        await past.query(`UPDATE webhooks.deliveries SET state = 'parked'`);
        const states = () => past.query('SELECT DISTINCT state FROM webhooks.deliveries');
        return { operation: () => deliveries.release(10), stored: states };
      },
      orElse: [0],
    },
  },
  madeByRelay,
);

test('what came of attempts, planned while nothing was there, is recorded without a walk through a long queue', async (context) => {
  const { database, owner, deliveries } = await queues(context, { acme: 10 });
  await owner.query('VACUUM ANALYZE webhooks.deliveries');
  const request = { owner: 'a', leaseMs: anHour, deliveriesMax: 10 };
  const readOf = async (work: (recording: Deliveries) => Promise<unknown>) =>
    database.transaction(async (tx) => {
      await work(openDeliveries({ ...database, query: tx.query }, manyRates));
      const [counts] = await tx.query<{ backend: number; walks: bigint; rows: bigint }>(
        `SELECT pg_backend_pid() AS backend, seq_scan AS walks, idx_tup_fetch AS rows
         FROM pg_stat_xact_user_tables WHERE relname = 'deliveries'`,
      );
      return counts!;
    });
  const ten = async ({ record }: Deliveries) => {
    const { leased } = await deliveries.lease(request);
    return Promise.all(leased.map((each) => record(each, delivered)));
  };
  const { backend } = await readOf(ten);
  await insert(database, 'acme', 3_000);
  const full = await readOf(ten);
  assert.deepEqual([full.backend, full.walks], [backend, 0n]);
  assert.ok(full.rows < 100n, `${full.rows} rows were read`);
  const ended = `SELECT FROM webhooks.deliveries WHERE state = 'delivered'`;
  assert.equal((await owner.query(ended)).length, 20);
});

test('an event of which only a second delivery is left gets no first one', async (context) => {
  const { database, owner, deliveries, lease } = await queues(context, { acme: 1 });
  const [{ eventId, partnerId, txnId } = assert.fail('nothing is due')] = await lease();
  await owner.query('UPDATE webhooks.deliveries SET ordinal = 2');
  const type = 'payment.succeeded';
  const again: Notice = { eventId, partnerId, txnId, type, body: '{}', traceparent: null };
  const request = { owner: 'b', leaseMs: anHour, deliveriesMax: 10 };
  await database.transaction((tx) => deliveries.make(tx, [again], request));
  assert.deepEqual(await owner.query('SELECT ordinal FROM webhooks.deliveries'), [{ ordinal: 2 }]);
});

test('a lease that was planned while nothing was there reads no more than it takes of a long queue', async (context) => {
  const { database, owner, deliveries } = await queues(context, {});
  await owner.query('VACUUM ANALYZE webhooks.deliveries');
  const leaseTen = () =>
    database.transaction(async (tx) => {
      const read = await deliveries.make(tx, [], {
        owner: 'a',
        leaseMs: anHour,
        deliveriesMax: 10,
      });
      const [counts] = await tx.query<{ backend: number; walks: bigint; rows: bigint }>(
        `SELECT pg_backend_pid() AS backend, seq_scan AS walks, idx_tup_fetch AS rows
         FROM pg_stat_xact_user_tables WHERE relname = 'deliveries'`,
      );
      return { read, ...counts! };
    });
  const { backend } = await leaseTen();
  await setEndpoint(owner, 'acme');
  await insert(database, 'acme', 3_000);
  const full = await leaseTen();
  assert.deepEqual([full.backend, full.walks], [backend, 0n]);
  assert.ok(full.rows < 100n, `${full.rows} rows were read`);
  assert.equal((await full.read()).leased.length, 10);
});

test('what many say that waited is read by where they are, and not by a walk through all', async (context) => {
  const { database, owner } = await queues(context, { acme: 600 });
  await owner.query('VACUUM ANALYZE webhooks.deliveries');
  const walks = await database.transaction(async (tx) => {
    const { make } = openDeliveries({ ...database, query: tx.query }, manyRates);
    const read = await make(tx, [], { owner: 'a', leaseMs: anHour, deliveriesMax: 500 });
    const { leased } = await read();
    assert.ok(leased.length === 500 && leased.every(({ body }) => body.length > 0));
    return tx.query<{ walks: bigint }>(
      `SELECT seq_scan AS walks FROM pg_stat_xact_user_tables WHERE relname = 'deliveries'`,
    );
  });
  assert.deepEqual(walks, [{ walks: 0n }]);
});
