import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type EventId, type TxnId } from '@triplock/payments';
import {
  aPayment,
  type LostAnswerCase,
  type StatementRelay,
  testLostAnswers,
} from '@triplock/testing';
import { a, b, fencing, idOf, leaseOf, leasing } from './leasing.conformance.ts';
import type { Outbox } from '../outbox.ts';
import type { OpenOutbox as Open, OutboxUnderTest } from './under-test.ts';

/** What every outbox promises to dispatchers, whatever it is stored in. */
export function outboxConformance(name: string, open: Open): void {
  suite(name, () => {
    leasing(open);
    taking(open);
    fencing(open);
    marking(open);
    parking(open);
    lag(open);
  });
}

function taking(open: Open): void {
  test('events come in the order of their payment until they are marked', async (context) => {
    const { outbox, append } = await open(context);
    const { txnId } = aPayment();
    const written = [await append(txnId), await append(txnId), await append(txnId)];
    const { leases } = await outbox.leaseBuckets(a);
    assert.deepEqual((await outbox.take(leases, 100)).map(idOf), written);
    assert.deepEqual((await outbox.take(leases, 100)).map(idOf), written);
    const lease = leaseOf(leases, txnId);
    assert.equal(await outbox.markPublished(lease, written.slice(0, 1)), 1);
    const left = await outbox.take(leases, 100);
    assert.deepEqual(left.map(idOf), written.slice(1));
    assert.deepEqual(
      left.map((row) => [row.sequence, row.bucket, row.orderingKey]),
      [2, 3].map((sequence) => [sequence, bucketOf(txnId, bucketCount), txnId]),
    );
  });

  test('a backlog that is longer than one look is taken from its beginning', async (context) => {
    const { outbox, append } = await open(context);
    const { txnId } = aPayment();
    const written: EventId[] = [];
    for (let n = 0; n < 20; n += 1) written.push(await append(txnId));
    const { leases } = await outbox.leaseBuckets(a);
    assert.deepEqual((await outbox.take(leases, 1)).map(idOf), written.slice(0, 1));
    assert.deepEqual((await outbox.take(leases, 3)).map(idOf), written.slice(0, 3));
  });

  test('an event that committed late under a lower order id is not passed over', async (context) => {
    const { outbox, append, appendLate } = await open(context);
    const { txnId } = aPayment();
    const { leases } = await outbox.leaseBuckets(a);
    const late = await appendLate(txnId);
    const early = await append(sameBucketAs(txnId));
    assert.deepEqual((await outbox.take(leases, 100)).map(idOf), [early]);
    assert.equal(await outbox.markPublished(leaseOf(leases, txnId), [early]), 1);
    await late.commit();
    assert.deepEqual((await outbox.take(leases, 100)).map(idOf), [late.eventId]);
  });

  test('only leased buckets are read, and a full one leaves room for the others', async (context) => {
    const { outbox, append } = await open(context);
    const full = aPayment().txnId;
    const other = inBucket((bucketOf(full, bucketCount) + 1) % bucketCount);
    for (let n = 0; n < 10; n += 1) await append(full);
    const last = await append(other);
    const { leases } = await outbox.leaseBuckets(a);
    const two = [leaseOf(leases, full), leaseOf(leases, other)];
    const rows = await outbox.take(two, 6);
    assert.ok(rows.length <= 6);
    assert.ok(rows.map(idOf).includes(last));
    assert.deepEqual((await outbox.take([two[1]!], 6)).map(idOf), [last]);
    assert.deepEqual(await outbox.take([], 6), []);
  });
}

function marking(open: Open): void {
  test('many buckets marked at once, some by a lost lease, are each counted for themselves', async (context) => {
    const { outbox, another, append, stateOf } = await open(context);
    const ids = Array.from({ length: 30 }, () => aPayment().txnId);
    const written = await Promise.all(ids.map(append));
    const { leases: stale } = await another.leaseBuckets({ owner: 'a', leaseMs: 0 });
    const { leases } = await outbox.leaseBuckets(b);
    const lost = (n: number) => n % 3 === 0;
    const marked = await Promise.all(
      written.map((eventId, n) =>
        outbox.markPublished(leaseOf(lost(n) ? stale : leases, ids[n]!), [eventId]),
      ),
    );
    assert.deepEqual(
      marked,
      written.map((_, n) => (lost(n) ? 0 : 1)),
    );
    const states = await Promise.all(written.map(stateOf));
    assert.deepEqual(
      states,
      written.map((_, n) => (lost(n) ? 'pending' : 'published')),
    );
    const again = written.flatMap((eventId, n) =>
      [1, 2, 3].map(() => outbox.markPublished(leaseOf(leases, ids[n]!), [eventId])),
    );
    const counted = (await Promise.all(again)).reduce((sum, each) => sum + each, 0);
    assert.equal(counted, written.filter((_, n) => lost(n)).length);
  });
}

function parking(open: Open): void {
  test('an event that can never be published is set aside with its payment’s later ones', async (context) => {
    const { outbox, append, stateOf } = await open(context);
    const { txnId } = aPayment();
    const neighbour = sameBucketAs(txnId);
    const written = [await append(txnId), await append(txnId), await append(txnId)];
    const other = await append(neighbour);
    const { leases } = await outbox.leaseBuckets(a);
    const lease = leaseOf(leases, txnId);
    await outbox.markPublished(lease, written.slice(0, 1));
    const poison = { eventId: written[1]!, reason: 'too large' };
    assert.equal(await outbox.park(lease, poison), 2);
    assert.equal(await outbox.park(lease, poison), 0);
    assert.deepEqual(await Promise.all(written.map(stateOf)), ['published', 'parked', 'parked']);
    assert.deepEqual((await outbox.take(leases, 100)).map(idOf), [other]);
  });

  test('an event that comes after its payment was parked waits behind it', async (context) => {
    const { outbox, append, stateOf } = await open(context);
    const { txnId } = aPayment();
    const eventId = await append(txnId);
    const { leases } = await outbox.leaseBuckets(a);
    await outbox.park(leaseOf(leases, txnId), { eventId, reason: 'too large' });
    const later = await append(txnId);
    assert.deepEqual(await outbox.take(leases, 100), []);
    assert.equal(await stateOf(later), 'pending');
  });

  test('what a parked event holds up is counted apart from what waits, and its redrive frees it', async (context) => {
    const { outbox, append } = await open(context);
    const { txnId } = aPayment();
    const written = [await append(txnId), await append(txnId)];
    const { leases } = await outbox.leaseBuckets(a);
    await outbox.park(leaseOf(leases, txnId), { eventId: written[0]!, reason: 'too large' });
    written.push(await append(txnId));
    const { rows, oldestSeconds, held } = await outbox.pending();
    assert.deepEqual({ rows, oldestSeconds, held }, { rows: 0, oldestSeconds: 0, held: 3 });
    const other = await append(sameBucketAs(txnId));
    assert.deepEqual((await outbox.take(leases, 100)).map(idOf), [other]);
    const backlog = await outbox.pending();
    assert.deepEqual([backlog.rows, backlog.held], [1, 3]);

    assert.deepEqual((await outbox.redrive(written[0]!)).sort(), written.slice(0, 2).sort());
    assert.deepEqual(await outbox.redrive(written[0]!), []);
    assert.deepEqual((await outbox.take(leases, 100)).map(idOf), [...written, other]);
    const freed = await outbox.pending();
    assert.deepEqual([freed.rows, freed.held], [4, 0]);
  });
}

function lag(open: Open): void {
  test('what waits is counted, with the age of the oldest', async (context) => {
    const { outbox, append } = await open(context);
    assert.deepEqual(await outbox.pending(), { rows: 0, oldestSeconds: 0, held: 0 });
    const first = aPayment().txnId;
    const ids = [await append(first), await append(first)];
    await append(aPayment().txnId);
    const waiting = await outbox.pending();
    assert.equal(waiting.rows, 3);
    assert.ok(waiting.oldestSeconds >= 0 && waiting.oldestSeconds < 60);
    const { leases } = await outbox.leaseBuckets(a);
    await outbox.markPublished(leaseOf(leases, first), ids);
    assert.equal((await outbox.pending()).rows, 1);
  });

  test('what is younger than a time is not counted with what waits', async (context) => {
    const { outbox, append } = await open(context);
    await append(aPayment().txnId);
    assert.equal((await outbox.pending(new Date(Date.now() - 60_000))).rows, 0);
    assert.equal((await outbox.pending(new Date(Date.now() + 60_000))).rows, 1);
  });
}

/** An outbox whose answers can be lost; only `outbox` goes by the relay. */
export type OutboxByRelay = OutboxUnderTest & { relay: StatementRelay };

const leased = aPayment();

/** Two events of a payment, and the lease of their bucket. */
async function aLeasedPayment({ another, append }: OutboxByRelay) {
  const { txnId } = leased;
  const written = [await append(txnId), await append(txnId)] as const;
  const { leases } = await another.leaseBuckets(a);
  const lease = leaseOf(leases, txnId);
  const take = async () => (await another.take(leases, 100)).map(idOf);
  return { written, leases, lease, take };
}

/** What an owner holds, wherever that is. */
async function held(outbox: Outbox, request: typeof a): Promise<object> {
  const { server: _, ...holding } = await outbox.leaseBuckets(request);
  return holding;
}

const dispatching: Record<string, LostAnswerCase<OutboxByRelay>> = {
  leaseBuckets: {
    prepare: async ({ outbox, another }) => ({
      operation: () => held(outbox, a),
      // The same epochs: what is under way for a bucket stays its owner's.
      stored: async () => [await held(another, a), await held(another, b)],
    }),
  },
  releaseBuckets: {
    prepare: async ({ outbox, another }) => {
      await another.leaseBuckets(a);
      return {
        operation: () => outbox.releaseBuckets('a'),
        stored: () => held(another, b),
      };
    },
  },
  'take and pending': {
    prepare: async (store) => {
      const { leases, take } = await aLeasedPayment(store);
      const read = async () => [
        (await store.outbox.take(leases, 100)).map(idOf),
        (await store.outbox.pending()).rows,
      ];
      return { operation: read, stored: take };
    },
  },
  markPublished: {
    prepare: async (store) => {
      const { written, lease, take } = await aLeasedPayment(store);
      return {
        operation: () => store.outbox.markPublished(lease, [written[0]]),
        stored: async () => [await take(), await Promise.all(written.map(store.stateOf))],
      };
    },
    // Marked by the call that heard nothing of it.
    orElse: [0],
  },
  park: {
    prepare: async (store) => {
      const { written, lease, take } = await aLeasedPayment(store);
      return {
        operation: () => store.outbox.park(lease, { eventId: written[0], reason: 'too large' }),
        stored: async () => [await take(), await Promise.all(written.map(store.stateOf))],
      };
    },
    orElse: [0],
  },
  redrive: {
    prepare: async (store) => {
      const { written, lease, take } = await aLeasedPayment(store);
      await store.another.park(lease, { eventId: written[0], reason: 'too large' });
      return {
        operation: async () => (await store.outbox.redrive(written[0])).length,
        stored: async () => [await take(), await Promise.all(written.map(store.stateOf))],
      };
    },
    orElse: [0],
  },
};

/** What every outbox promises to a dispatcher whose answers are lost. */
export function lostAnswersOfOutbox(
  name: string,
  open: (context: TestContext) => Promise<OutboxByRelay>,
): void {
  suite(name, () => testLostAnswers(dispatching, open));
}

function sameBucketAs(paymentId: TxnId): TxnId {
  return inBucket(bucketOf(paymentId, bucketCount));
}

function inBucket(bucket: number): TxnId {
  for (;;) {
    const { txnId } = aPayment();
    if (bucketOf(txnId, bucketCount) === bucket) return txnId;
  }
}
