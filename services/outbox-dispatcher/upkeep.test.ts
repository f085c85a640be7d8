import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import { openPostgresOutbox } from '@triplock/ledger';
import { aPayment, createTestDatabase, eventually } from '@triplock/testing';
import { aDispatcherSetup } from './test/dispatcher.ts';
import { holdLeases } from './upkeep.ts';

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
