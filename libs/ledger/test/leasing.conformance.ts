import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type EventId, type TxnId } from '@triplock/payments';
import { aPayment, eventually } from '@triplock/testing';
import type { OpenOutbox as Open } from './under-test.ts';
import type { BucketLease, OutboxEvent } from '../outbox.ts';

/** Two dispatchers that keep their leases for longer than a test. */
export const a = { owner: 'a', leaseMs: 60_000 };
export const b = { owner: 'b', leaseMs: 60_000 };

/** How dispatchers share the buckets. */
export function leasing(open: Open): void {
  test('a dispatcher alone holds every bucket, and keeps its epochs while it renews', async (context) => {
    const { outbox } = await open(context);
    const first = await outbox.leaseBuckets(a);
    assert.equal(first.moreToCome, false);
    assert.deepEqual(
      first.leases.map((lease) => lease.bucket),
      Array.from({ length: bucketCount }, (_, bucket) => bucket),
    );
    assert.deepEqual(await outbox.leaseBuckets(a), first);
  });

  test('a second dispatcher has its half with the first renewal, and no bucket has two owners', async (context) => {
    const { outbox, another } = await open(context);
    await outbox.leaseBuckets(a);
    const none = await another.leaseBuckets(b);
    assert.deepEqual([none.leases, none.moreToCome], [[], true]);
    const mine = await outbox.leaseBuckets(a);
    const theirs = await another.leaseBuckets(b);
    assert.deepEqual([mine.leases.length, theirs.leases.length], [32, 32]);
    assert.deepEqual([mine.moreToCome, theirs.moreToCome], [false, false]);
    assertDisjoint(mine.leases, theirs.leases);
    assert.deepEqual(await outbox.leaseBuckets(a), mine);
  });

  test('a third dispatcher gets its share from both, and asks for no more than there is', async (context) => {
    const { outbox, another } = await open(context);
    for (let turn = 0; turn < 2; turn += 1) {
      await outbox.leaseBuckets(a);
      await another.leaseBuckets(b);
    }
    const c = { ...a, owner: 'c' };
    const none = await outbox.leaseBuckets(c);
    assert.deepEqual([none.leases, none.moreToCome], [[], true]);
    await outbox.leaseBuckets(a);
    const some = await another.leaseBuckets(c);
    assert.deepEqual([some.leases.length, some.moreToCome], [10, true]);
    await another.leaseBuckets(b);
    const all = await outbox.leaseBuckets(c);
    assert.deepEqual([all.leases.length, all.moreToCome], [20, false]);
  });

  test('three dispatchers asking at once share everything and hold no bucket twice', async (context) => {
    const { outbox, another } = await open(context);
    const owners = [a, b, { ...a, owner: 'c' }];
    for (let turn = 0; turn < 12; turn += 1) {
      const held = await Promise.all(
        owners.map((request, n) => [outbox, another][n % 2]!.leaseBuckets(request)),
      );
      // Read at different moments, two may name one bucket, but never under one epoch.
      const names = held
        .flatMap(({ leases }) => leases)
        .map(({ bucket, epoch }) => `${bucket}@${epoch}`);
      assert.equal(new Set(names).size, names.length);
    }
    const shares = [];
    for (const request of owners) shares.push((await outbox.leaseBuckets(request)).leases);
    assert.equal(new Set(shares.flat().map(({ bucket }) => bucket)).size, bucketCount);
    assert.ok(shares.every((share) => share.length >= 20 && share.length <= 22));
  });

  test('what a dead dispatcher held is taken over under a higher epoch', async (context) => {
    const { outbox, another } = await open(context);
    const { leases: lost } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 1 });
    const taken = await eventually(async () => {
      const { leases } = await another.leaseBuckets(b);
      return leases.length === bucketCount && leases;
    });
    assertHigherEpochs(taken, lost);
  });

  test('a dispatcher that lets its own lease expire gets a new epoch', async (context) => {
    const { outbox } = await open(context);
    const { leases: lost } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 0 });
    assertHigherEpochs((await outbox.leaseBuckets(a)).leases, lost);
  });

  test('released buckets are free at once', async (context) => {
    const { outbox, another } = await open(context);
    const { leases: before } = await outbox.leaseBuckets(a);
    await outbox.releaseBuckets('a');
    await outbox.releaseBuckets('a');
    assertHigherEpochs((await another.leaseBuckets(b)).leases, before);
  });
}

function assertDisjoint(some: readonly BucketLease[], others: readonly BucketLease[]): void {
  const buckets = new Set(some.map(({ bucket }) => bucket));
  assert.ok(others.every(({ bucket }) => !buckets.has(bucket)));
}

function assertHigherEpochs(now: readonly BucketLease[], before: readonly BucketLease[]): void {
  assert.equal(now.length, before.length);
  for (const [n, lease] of now.entries()) {
    assert.equal(lease.bucket, before[n]!.bucket);
    assert.ok(lease.epoch > before[n]!.epoch);
  }
}

/** What an owner that lost its lease cannot do. */
export function fencing(open: Open): void {
  test('an owner whose bucket passed on takes, marks and parks nothing', async (context) => {
    const { outbox, another, append, stateOf } = await open(context);
    const { txnId } = aPayment();
    const eventId = await append(txnId);
    const { leases: stale } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 0 });
    const { leases } = await another.leaseBuckets(b);
    const lost = leaseOf(stale, txnId);
    assert.deepEqual(await outbox.take(stale, 100), []);
    assert.equal(await outbox.markPublished(lost, [eventId]), 0);
    assert.equal(await outbox.park(lost, { eventId, reason: 'too large' }), 0);
    assert.equal(await stateOf(eventId), 'pending');
    assert.deepEqual((await another.take(leases, 100)).map(idOf), [eventId]);
  });

  test('an owner whose lease ran out marks nothing, even if nobody took it over', async (context) => {
    const { outbox, append } = await open(context);
    const { txnId } = aPayment();
    const eventId = await append(txnId);
    const { leases: expired } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 0 });
    assert.deepEqual(await outbox.take(expired, 100), []);
    assert.equal(await outbox.markPublished(leaseOf(expired, txnId), [eventId]), 0);
  });

  test('marking is counted once, and a lease marks only its own bucket', async (context) => {
    const { outbox, append, stateOf } = await open(context);
    const { txnId } = aPayment();
    const eventId = await append(txnId);
    const { leases } = await outbox.leaseBuckets(a);
    const foreign = leases[(bucketOf(txnId, bucketCount) + 1) % bucketCount]!;
    assert.equal(await outbox.markPublished(foreign, [eventId]), 0);
    const lease = leaseOf(leases, txnId);
    assert.equal(await outbox.markPublished(lease, [eventId, eventId]), 1);
    assert.equal(await outbox.markPublished(lease, [eventId]), 0);
    assert.equal(await outbox.markPublished(lease, []), 0);
    assert.equal(await stateOf(eventId), 'published');
  });
}

export const idOf = (row: OutboxEvent): EventId => row.id;

export function leaseOf(leases: readonly BucketLease[], paymentId: TxnId): BucketLease {
  const bucket = bucketOf(paymentId, bucketCount);
  return leases.find((lease) => lease.bucket === bucket)!;
}
