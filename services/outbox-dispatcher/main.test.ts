import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import {
  aPayment,
  clocksOff,
  eventually,
  freePort,
  loseListener,
  startService,
  createTestDatabase,
} from '@triplock/testing';
import { bucketCount } from '@triplock/contracts';
import { openPostgresOutbox } from '@triplock/ledger';
import { aDispatcherSetup } from './test/dispatcher.ts';
import { holdLeases } from './upkeep.ts';

const start = (context: TestContext, settings: Readonly<Record<string, string>>) =>
  startService(context, new URL('main.ts', import.meta.url), settings);
const textOf = async (answer: Promise<Response>) => (await answer).text();

async function aService(context: TestContext) {
  const setup = await aDispatcherSetup(context);
  const env = {
    TRIPLOCK_MODE: 'test',
    ADMIN_PORT: String(await freePort()),
    DATABASE_URL: setup.store.url('triplock_dispatcher'),
    PUBSUB_PROJECT_ID: setup.events.projectId,
    PUBSUB_EMULATOR_HOST: setup.events.emulatorHost,
    EVENTS_TOPIC: setup.events.topic,
    KAFKA_BROKERS: setup.told.brokers.join(','),
    TOLD_TOPIC: setup.told.topic,
    LEASE_MS: '6000',
  };
  return { ...setup, env };
}

const within2min = (what: string) => ({ withinMs: 120_000, what });

test('a dispatcher publishes what comes, shows its figures, and gives its buckets back at the end', async (context) => {
  const { env, post, rows, received, store } = await aService(context);
  const dispatcher = start(context, env);
  await dispatcher.ready();
  await post(aPayment(), aPayment());
  await eventually(async () => received.length === 2, within2min('the events'));
  await eventually(async () => (await rows()).every(({ state }) => state === 'published'));
  const body = await textOf(dispatcher.admin('/metrics'));
  assert.match(body, /triplock_dispatcher_events_total\{outcome="published",[^}]*\} 2/);
  assert.match(body, /triplock_dispatcher_leases\{[^}]*\} 64/);
  assert.equal((await dispatcher.terminate()).exitCode, 0);
  const held = await store.open().query('SELECT FROM ledger.outbox_leases WHERE owner IS NOT NULL');
  assert.equal(held.length, 0);
});

test('a dispatcher whose listening connection is lost listens again, and finds what it is not told of', async (context) => {
  const { env, post, rows, store } = await aService(context);
  const dispatcher = start(context, { ...env, INSTANCE_NAME: 'listener' });
  await dispatcher.ready();
  await loseListener(store.open(), 'listener');
  // As from a worker that died before it told anybody: this ledger tells nobody.
  await post(aPayment());
  await eventually(async () => (await rows()).every(({ state }) => state === 'published'));
  assert.equal((await dispatcher.terminate()).exitCode, 0);
});

test('a dispatcher killed between the publish and the mark is followed by one that publishes the same event id', async (context) => {
  const { env, post, rows, received } = await aService(context);
  const killed = start(context, { ...env, CRASH_POINTS: 'dispatcher.published=kill' });
  await post(aPayment());
  assert.equal((await killed.ended).signal, 'SIGKILL');
  assert.deepEqual(
    (await rows()).map(({ state }) => state),
    ['pending'],
  );
  const next = start(context, { ...env, INSTANCE_NAME: 'next' });
  await next.ready();
  const readyAt = performance.now();
  await eventually(async () => received.length === 2, within2min('the copy'));
  assert.ok(performance.now() - readyAt < 10_000, 'the takeover took too long');
  const [row] = await rows();
  const ids = received.map(({ attributes }) => attributes['event_id']);
  assert.deepEqual(ids, [row!.eventId, row!.eventId]);
  await eventually(async () => (await rows())[0]?.state === 'published');
  assert.equal((await next.terminate()).exitCode, 0);
});

for (const { hours, settings: clock } of clocksOff) {
  test(`a dispatcher whose clock is off by ${hours} h takes no bucket that another one holds, and all once that is gone`, async (context) => {
    const { env, post, rows, received } = await aService(context);
    const right = start(context, { ...env, INSTANCE_NAME: 'right' });
    await right.ready();
    const ADMIN_PORT = String(await freePort());
    const off = start(context, { ...env, ...clock, ADMIN_PORT, INSTANCE_NAME: 'off' });
    await off.ready();
    const payments = Array.from({ length: 20 }, () => aPayment());
    const isPublished = async () => (await rows()).every(({ state }) => state === 'published');
    await post(...payments);
    await eventually(isPublished, within2min('the events of both'));
    right.child.kill('SIGKILL');
    await post(...payments.map(() => aPayment()));
    await eventually(isPublished, within2min('the events of the one that is left'));
    await eventually(async () => received.length >= 40, within2min('the events'));
    const ids = received.map(({ attributes }) => attributes['event_id']).toSorted();
    assert.deepEqual(ids, (await rows()).map(({ eventId }) => eventId).toSorted());
    assert.equal((await off.terminate()).exitCode, 0);
  });
}

test('missing and malformed settings are all named at once', async (context) => {
  const { exitCode, stderr } = await start(context, { ADMIN_PORT: '70000', LEASE_MS: '10' }).ended;
  assert.equal(exitCode, 2);
  for (const name of ['ADMIN_PORT', 'LEASE_MS', 'DATABASE_URL', 'PUBSUB_PROJECT_ID']) {
    assert.match(stderr, new RegExp(`${name} is (missing|malformed)`));
  }
});

test('a dispatcher whose lease ends before a publish could publishes nothing', async (context) => {
  const { post, dispatcher, rows } = await aDispatcherSetup(context);
  await post(aPayment());
  const { pass } = dispatcher({ leaseMs: 1_500 });
  assert.equal(await pass(), 0);
  assert.deepEqual(
    (await rows()).map(({ state }) => state),
    ['pending'],
  );
});

test('what a dead dispatcher held is published by the next, and its late mark changes nothing', async (context) => {
  const { post, dispatcher, rows, received } = await aDispatcherSetup(context);
  await post(aPayment());
  const dead = dispatcher({ name: 'dead' });
  const { leases: lost } = await dead.outbox.leaseBuckets({ owner: 'dead', leaseMs: 300 });
  const next = dispatcher({ name: 'next', leaseMs: 6_000 });
  await eventually(async () => {
    const { leases } = await next.outbox.leaseBuckets({ owner: 'next', leaseMs: 6_000 });
    return leases.length === bucketCount;
  });
  // The event still waits, so that nothing but the epoch refuses the mark.
  const [row] = await rows();
  const lease = lost.find(({ bucket }) => bucket === row!.bucket)!;
  assert.equal(await dead.outbox.markPublished(lease, [row!.eventId as never]), 0);
  assert.equal((await rows())[0]!.state, 'pending');
  assert.equal(await next.pass(), 1);
  await eventually(async () => received.length === 1);
});

test('two dispatchers share the buckets and publish every event once', async (context) => {
  const { post, dispatcher, rows, received } = await aDispatcherSetup(context);
  const [one, two] = ['one', 'two'].map((name) => dispatcher({ name, leaseMs: 9_000 }));
  await one!.pass();
  await two!.pass();
  await post(...Array.from({ length: 120 }, () => aPayment()));
  const done = [0, 0];
  await eventually(
    async () => {
      done[0]! += await one!.pass();
      done[1]! += await two!.pass();
      // Leases are renewed, and shared anew, when a third of their time is over.
      if (done[1]! === 0) await post(aPayment());
      return done[1]! > 0 && (await rows()).every(({ state }) => state === 'published');
    },
    { withinMs: 60_000, what: 'a share for each' },
  );
  const inOutbox = (await rows()).map(({ eventId }) => eventId);
  await eventually(async () => received.length >= inOutbox.length);
  const delivered = received.map(({ attributes }) => attributes['event_id']);
  assert.deepEqual(delivered.sort(), inOutbox.sort());
  assert.ok(done[0]! > 0);
});

test('leases are asked for again when a third of their time is over, not before', async (context) => {
  const outbox = openPostgresOutbox(
    (await createTestDatabase(context)).open('triplock_dispatcher'),
  );
  let asked = 0;
  const leaseBuckets: typeof outbox.leaseBuckets = (request) => {
    asked += 1;
    return outbox.leaseBuckets(request);
  };
  const leaseMs = 6_000;
  const hold = holdLeases({ leaseBuckets }, { owner: 'one', leaseMs });
  const before = performance.now();
  const first = await hold();
  assert.equal(first.leases.size, bucketCount);
  const { validUntil } = first;
  assert.ok(validUntil >= before + leaseMs && validUntil <= performance.now() + leaseMs);
  await hold();
  assert.equal(asked, 1);
  const renewed = await eventually(async () => {
    const held = await hold();
    return asked === 2 && held;
  });
  assert.ok(renewed.validUntil > first.validUntil);
  assert.deepEqual(renewed.leases, first.leases);
});

test('a dispatcher that joins has its half soon after the other one’s renewal', async (context) => {
  const store = await createTestDatabase(context);
  const leaseMs = 6_000;
  const [one, two] = ['one', 'two'].map((owner) =>
    holdLeases(openPostgresOutbox(store.open('triplock_dispatcher')), { owner, leaseMs }),
  );
  assert.equal((await one!()).leases.size, bucketCount);
  assert.equal((await two!()).leases.size, 0);
  const joinedAt = performance.now();
  await eventually(async () => {
    const [mine, theirs] = [await one!(), await two!()];
    for (const bucket of mine.leases.keys()) assert.ok(!theirs.leases.has(bucket));
    return theirs.leases.size === bucketCount / 2;
  });
  const tookMs = performance.now() - joinedAt;
  assert.ok(tookMs < leaseMs, `it took ${tookMs} ms`);
});
