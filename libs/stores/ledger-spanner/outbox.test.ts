import { test, type TestContext } from 'node:test';
import assert from 'node:assert/strict';
import { bucketCount } from '@triplock/contracts';
import { outboxConformance, type OutboxUnderTest } from '@triplock/ledger/test';
import { bucketOf, deriveId, type EventId, type TxnId } from '@triplock/payments';
import { aPayment, eventually } from '@triplock/testing';
import { openSpannerOutbox } from './outbox.ts';
import type { SpannerDatabase } from './spanner/database.ts';
import { commitTimestamp } from './spanner/values.ts';
import { createTestSpanner } from './test/test-spanner.ts';

type UnderTest = OutboxUnderTest & {
  database: SpannerDatabase;
  /** Makes everything published so many days older. */
  grow(days: number): Promise<void>;
};

async function openUnderTest(context: TestContext): Promise<UnderTest> {
  const store = await createTestSpanner(context);
  const [database, second] = [await store.open(), await store.open()];
  const sequences = new Map<TxnId, number>();
  const prepare = (paymentId: TxnId) => {
    const sequence = (sequences.get(paymentId) ?? 0) + 1;
    sequences.set(paymentId, sequence);
    const eventId = deriveId('event', paymentId, String(sequence)) as EventId;
    const commit = () => insertEvent(database, { eventId, paymentId, sequence });
    return { eventId, commit };
  };
  return {
    database,
    grow: (days) => publishedEarlier(database, days),
    outbox: openSpannerOutbox(database),
    another: openSpannerOutbox(second),
    append: async (paymentId) => {
      const { eventId, commit } = prepare(paymentId);
      await commit();
      return eventId;
    },
    // An order id is the time of the commit: one that is drawn before does not exist here.
    appendLate: async (paymentId) => prepare(paymentId),
    stateOf: async (eventId) => {
      const sql = 'SELECT state FROM outbox WHERE event_id = @eventId';
      const [row] = await database.query<{ state: 'pending' }>(sql, { eventId });
      return row!.state;
    },
  };
}

function insertEvent(
  database: SpannerDatabase,
  event: { eventId: EventId; paymentId: TxnId; sequence: number },
): Promise<void> {
  const { eventId, paymentId, sequence } = event;
  const row = {
    event_id: eventId,
    event_type: 'payment.succeeded',
    txn_id: paymentId,
    sequence,
    payment_id: paymentId,
    partner_id: 'acme',
    bucket: bucketOf(paymentId, bucketCount),
    payload: '{}',
    traceparent: 't',
    state: 'pending',
    created_at: commitTimestamp,
    changed_at: commitTimestamp,
  };
  return database.transaction(async (tx) => tx.write({ kind: 'insert', table: 'outbox', row }));
}

function publishedEarlier(database: SpannerDatabase, days: number): Promise<void> {
  return database.transaction(async (tx) => {
    const sql = `SELECT event_id, published_at FROM outbox WHERE state = 'published'`;
    for (const { event_id, published_at } of await tx.query<{
      event_id: string;
      published_at: Date;
    }>(sql)) {
      const row = { event_id, published_at: new Date(+published_at - days * 86_400_000) };
      tx.write({ kind: 'update', table: 'outbox', row });
    }
  });
}

outboxConformance('outbox on Spanner', openUnderTest);

test('what was published long ago leaves in small batches, and everything else stays', async (context) => {
  const { outbox, append, database, grow } = await openUnderTest(context);
  const [old, parked, waiting, young] = [aPayment(), aPayment(), aPayment(), aPayment()];
  const written = [await append(old.txnId), await append(old.txnId), await append(old.txnId)];
  const poison = await append(parked.txnId);
  const { leases } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 60_000 });
  const leaseOf = (paymentId: TxnId) => leases[bucketOf(paymentId, bucketCount)]!;
  await outbox.park(leaseOf(parked.txnId), { eventId: poison, reason: 'too large' });
  await outbox.markPublished(leaseOf(old.txnId), written);
  await append(waiting.txnId);
  await grow(31);
  const fresh = await append(young.txnId);
  await outbox.markPublished(leaseOf(young.txnId), [fresh]);

  const horizon = { keepMs: 30 * 86_400_000, rowsMax: 2 };
  assert.deepEqual(
    [await outbox.reap(horizon), await outbox.reap(horizon), await outbox.reap(horizon)],
    [2, 1, 0],
  );
  const left = await database.query('SELECT state FROM outbox ORDER BY state');
  assert.deepEqual(left, [{ state: 'parked' }, { state: 'pending' }, { state: 'published' }]);
  await assert.rejects(outbox.reap({ keepMs: 82_800_000, rowsMax: 1 }), /a day/);
});

test('republishing takes all events of a payment, in order, and none that waits or is parked', async (context) => {
  const { outbox, append, grow } = await openUnderTest(context);
  const [payment, other] = [aPayment(), aPayment()];
  const first = await append(payment.txnId);
  const poison = await append(other.txnId);
  const { leases } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 60_000 });
  const leaseOf = (paymentId: TxnId) => leases[bucketOf(paymentId, bucketCount)]!;
  await outbox.park(leaseOf(other.txnId), { eventId: poison, reason: 'too large' });
  await outbox.markPublished(leaseOf(payment.txnId), [first]);
  await grow(2);
  const second = await append(payment.txnId);
  await outbox.markPublished(leaseOf(payment.txnId), [second]);

  // The emulator's commits may be some milliseconds ahead of the clock.
  const until = new Date(Date.now() + 50);
  const range = { since: new Date(Date.now() - 3_600_000), until, rowsMax: 10 };
  await eventually(() => Promise.resolve(Date.now() > +until));
  assert.equal(await outbox.republish(range), 2);
  const taken = await outbox.take(leases, 100);
  assert.deepEqual(
    taken.map(({ id }) => id),
    [first, second],
  );
  await outbox.markPublished(leaseOf(payment.txnId), [first, second]);
  assert.equal(await outbox.republish(range), 0);
});
