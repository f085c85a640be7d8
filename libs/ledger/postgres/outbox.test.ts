import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, deriveId, type EventId, type TxnId } from '@triplock/payments';
import type { Database, Queryable } from '@triplock/postgres';
import { aPayment, createTestDatabase, eventually, testLostAnswers } from '@triplock/testing';
import {
  lostAnswersOfOutbox,
  type OutboxByRelay,
  outboxConformance,
} from '../test/outbox.conformance.ts';
import { postgresLedgerStore } from '../store.ts';
import { openPostgresOutbox } from './outbox.ts';

const appendSql = `
  INSERT INTO ledger.outbox (
    event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent
  ) VALUES ($1, 'payment.succeeded', $2::uuid, $2::uuid, 'acme', $3, $4, '{}', 't')`;

async function openUnderTest(
  context: TestContext,
): Promise<
  OutboxByRelay & { worker: Database; database: Database; grow(age: string): Promise<unknown> }
> {
  const store = await createTestDatabase(context);
  const worker = store.open('triplock_ledger');
  const database = store.open('triplock_dispatcher');
  const { database: byRelay, relay } = await store.openByRelay('triplock_dispatcher');
  const sequences = new Map<TxnId, number>();
  const append = async (tx: Queryable, paymentId: TxnId) => {
    const sequence = (sequences.get(paymentId) ?? 0) + 1;
    sequences.set(paymentId, sequence);
    const eventId = deriveId('event', paymentId, String(sequence)) as EventId;
    await tx.query(appendSql, [eventId, paymentId, bucketOf(paymentId, bucketCount), sequence]);
    return eventId;
  };
  return {
    worker,
    database,
    relay,
    /** Makes everything published so much older. */
    grow: (age) =>
      store
        .open()
        .query('UPDATE ledger.outbox SET published_at = published_at - $1::interval', [age]),
    outbox: openPostgresOutbox(byRelay),
    another: openPostgresOutbox(store.open('triplock_dispatcher')),
    append: (paymentId) => append(worker, paymentId),
    appendLate: async (paymentId) => {
      const [inserted, mayCommit] = [
        Promise.withResolvers<EventId>(),
        Promise.withResolvers<void>(),
      ];
      const transaction = worker.transaction(async (tx) => {
        inserted.resolve(await append(tx, paymentId));
        await mayCommit.promise;
      });
      const commit = () => {
        mayCommit.resolve();
        return transaction;
      };
      return { eventId: await inserted.promise, commit };
    },
    stateOf: async (eventId) => {
      const sql = 'SELECT state FROM ledger.outbox WHERE event_id = $1';
      const [row] = await database.query<{ state: 'pending' }>(sql, [eventId]);
      return row!.state;
    },
  };
}

outboxConformance('outbox on PostgreSQL', openUnderTest);
lostAnswersOfOutbox('outbox on PostgreSQL whose answers are lost', openUnderTest);

type Upkept = Awaited<ReturnType<typeof openUnderTest>>;

const published = aPayment();

/** An event of a month ago. */
async function publishLongAgo({ another, append, grow }: Upkept): Promise<EventId> {
  const eventId = await append(published.txnId);
  const { leases } = await another.leaseBuckets({ owner: 'a', leaseMs: 60_000 });
  await another.markPublished(leases[bucketOf(published.txnId, bucketCount)]!, [eventId]);
  await grow('31 days');
  return eventId;
}

testLostAnswers<Upkept>(
  {
    reap: {
      prepare: async (store) => {
        await publishLongAgo(store);
        return {
          operation: () => store.outbox.reap({ keepMs: 30 * 86_400_000, rowsMax: 10 }),
          stored: () => store.database.query('SELECT FROM ledger.outbox'),
        };
      },
      orElse: [0],
    },
    republish: {
      prepare: async (store) => {
        const eventId = await publishLongAgo(store);
        const range = { since: new Date(0), until: new Date(), rowsMax: 10 };
        return {
          operation: () => store.outbox.republish(range),
          stored: () => store.stateOf(eventId),
        };
      },
      orElse: [0],
    },
  },
  openUnderTest,
);

test('a bucket cannot pass on between the comparison of a mark and its commit', async (context) => {
  const { outbox, append, database } = await openUnderTest(context);
  const { txnId } = aPayment();
  const eventId = await append(txnId);
  const { leases } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 60_000 });
  const lease = leases[bucketOf(txnId, bucketCount)]!;
  let passingOn: Promise<unknown> | undefined;
  await database.transaction(async (tx) => {
    const marking = openPostgresOutbox({ ...database, query: tx.query });
    assert.equal(await marking.markPublished(lease, [eventId]), 1);
    passingOn = outbox.leaseBuckets({ owner: 'b', leaseMs: 60_000 });
    await eventually(() => waitsForALock(database));
  });
  await passingOn;
});

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
  await grow('31 days');
  const fresh = await append(young.txnId);
  await outbox.markPublished(leaseOf(young.txnId), [fresh]);

  const horizon = { keepMs: 30 * 86_400_000, rowsMax: 2 };
  assert.deepEqual(
    [await outbox.reap(horizon), await outbox.reap(horizon), await outbox.reap(horizon)],
    [2, 1, 0],
  );
  const left = await database.query('SELECT state FROM ledger.outbox ORDER BY order_id');
  assert.deepEqual(left, [{ state: 'parked' }, { state: 'pending' }, { state: 'published' }]);
});

test('reapers at once take every event out once', async (context) => {
  const { outbox, another, append, grow } = await openUnderTest(context);
  const ids = Array.from({ length: 20 }, () => aPayment().txnId);
  const written = await Promise.all(ids.map(append));
  const { leases } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 60_000 });
  await Promise.all(
    written.map((eventId, n) =>
      outbox.markPublished(leases[bucketOf(ids[n]!, bucketCount)]!, [eventId]),
    ),
  );
  await grow('31 days');
  const horizon = { keepMs: 30 * 86_400_000, rowsMax: 5 };
  const reaped = await Promise.all(
    [outbox, another, outbox, another, outbox, another].map((each) => each.reap(horizon)),
  );
  assert.equal(
    reaped.reduce((sum, each) => sum + each),
    20,
  );
});

test('republishing takes all events of a payment, in order, and none that waits or is parked', async (context) => {
  const { outbox, append, database, grow } = await openUnderTest(context);
  const [payment, other] = [aPayment(), aPayment()];
  const first = await append(payment.txnId);
  const poison = await append(other.txnId);
  const { leases } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 60_000 });
  const leaseOf = (paymentId: TxnId) => leases[bucketOf(paymentId, bucketCount)]!;
  await outbox.park(leaseOf(other.txnId), { eventId: poison, reason: 'too large' });
  await outbox.markPublished(leaseOf(payment.txnId), [first]);
  await grow('2 days');
  const second = await append(payment.txnId);
  await outbox.markPublished(leaseOf(payment.txnId), [second]);

  const [row] = await database.query<{ now: Date }>(`SELECT now() + interval '1 ms' AS now`);
  const range = { since: new Date(Date.now() - 3_600_000), until: row!.now, rowsMax: 10 };
  assert.equal(await outbox.republish(range), 2);
  const taken = await outbox.take(leases, 100);
  assert.deepEqual(
    taken.map(({ id }) => id),
    [first, second],
  );
  await eventually(async () => {
    const [clock] = await database.query<{ later: boolean }>('SELECT now() > $1 AS later', [
      range.until,
    ]);
    return clock!.later;
  });
  await outbox.markPublished(leaseOf(payment.txnId), [first, second]);
  assert.equal(await outbox.republish(range), 0);
});

test('however much waits, no more of it is counted than is needed to see that it is much', async (context) => {
  const { outbox, worker } = await openUnderTest(context);
  await worker.query(`
    INSERT INTO ledger.outbox (
      event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent,
      created_at
    )
    SELECT gen_random_uuid(), 'payment.succeeded', id, id, 'acme', n % 64, 1, '{}', 't',
      now() - interval '1 hour' + n * interval '1 ms'
    FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, 10100) AS n) AS payment`);
  const { rows, oldestSeconds } = await outbox.pending();
  assert.equal(rows, 10_000);
  assert.ok(oldestSeconds > 3_590 && oldestSeconds < 3_660, `${oldestSeconds} s`);
});

/** What a node of a plan did. */
type Node = { 'Actual Rows': number; 'Actual Loops': number; Plans?: readonly Node[] };

const rowsIn = (node: Node): number[] => [
  node['Actual Rows'] * node['Actual Loops'],
  ...(node.Plans ?? []).flatMap(rowsIn),
];

/** A database that explains what changes its rows, instead of saying which they were. */
function explaining(database: Database, plans: Node[]): Database {
  const query = (tx: Queryable) => async (sql: string, parameters?: readonly unknown[]) => {
    if (!sql.includes('UPDATE')) return tx.query<never>(sql, parameters);
    const explain = `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${sql}`;
    const [row] = await tx.query<{ 'QUERY PLAN': [{ Plan: Node }] }>(explain, parameters);
    plans.push(row!['QUERY PLAN'][0].Plan);
    return [];
  };
  const transaction: Database['transaction'] = (work) =>
    database.transaction((tx) => work({ query: query(tx) }));
  return { ...database, transaction };
}

test('republishing costs what it gives out, however much was published and however little is known of it', async (context) => {
  const owner = (await createTestDatabase(context)).open();
  await owner.query('ALTER TABLE ledger.outbox SET (autovacuum_enabled = false)');
  await owner.query(`
    INSERT INTO ledger.outbox (
      event_id, event_type, txn_id, payment_id, partner_id, bucket, sequence, payload, traceparent,
      state, published_at, published_epoch
    )
    SELECT gen_random_uuid(), 'payment.succeeded', id, id, 'acme', n % 64, 1, '{}', 't',
      'published', now() - interval '1 hour' + n * interval '1 ms', 0
    FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, 20000) AS n) AS payment`);
  const plans: Node[] = [];
  const { republish } = openPostgresOutbox(explaining(owner, plans));
  const range = { since: new Date(0), until: new Date(), rowsMax: 100 };
  // As after a restore from a dump, and as it is once somebody has counted.
  await republish(range);
  await owner.query('ANALYZE ledger.outbox');
  await republish(range);
  const given = `SELECT count(*)::integer AS events FROM ledger.outbox WHERE state = 'pending'`;
  assert.deepEqual(await owner.query(given), [{ events: 200 }]);
  const most = plans.map((plan) => Math.max(...rowsIn(plan)));
  assert.equal(most.length, 2);
  assert.ok(Math.max(...most) < 1_000, `${most.join(' and ')} rows read to give out 100`);
});

test('there is a lease for every bucket', async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_dispatcher');
  const rows = await database.query('SELECT bucket FROM ledger.outbox_leases');
  assert.equal(rows.length, bucketCount);
});

async function waitsForALock(database: Database): Promise<boolean> {
  const waiting = await database.query(`
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'`);
  return waiting.length > 0;
}

test('whoever listens to the outbox is told of what the ledger has committed', async (context) => {
  const store = await createTestDatabase(context);
  const openPostgres = () => store.open('triplock_ledger');
  const { ledger } = await postgresLedgerStore.open({}, { openPostgres });
  const outbox = openPostgresOutbox(store.open('triplock_dispatcher'));
  const { leases } = await outbox.leaseBuckets({ owner: 'one', leaseMs: 60_000 });
  const stopping = new AbortController();
  const tellings: Promise<number>[] = [];
  const take = async () => (await outbox.take(leases, 100)).length;
  const listening = outbox.listen!(() => void tellings.push(take()), stopping.signal);
  await eventually(async () => tellings.length === 1);
  const settlement = { result: { state: 'succeeded' as const }, settledAt: new Date() };
  await ledger.post([{ payment: aPayment(), traceparent: 't', settlement }]);
  await eventually(async () => tellings.length === 2);
  stopping.abort();
  await listening;
  assert.deepEqual(await Promise.all(tellings), [0, 1]);
});

test('a partner’s backlog is in front of nobody else’s events, and each payment keeps its order', async (context) => {
  const { outbox, append, worker } = await openUnderTest(context);
  const { txnId: much } = aPayment();
  const little = aPayment({ partner: 'globex' });
  for (let n = 0; n < 40; n += 1) await append(much);
  // In the same bucket, written last.
  const bucket = bucketOf(much, bucketCount);
  const of = (sequence: number) => deriveId('event', little.txnId, String(sequence)) as EventId;
  const byGlobex = appendSql.replace(`'acme'`, `'globex'`);
  for (const sequence of [1, 2]) {
    await worker.query(byGlobex, [of(sequence), little.txnId, bucket, sequence]);
  }
  const { leases } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 60_000 });
  const taken = await outbox.take([leases[bucket]!], 6);
  assert.deepEqual(
    taken.map(({ subject, sequence }) => [subject === much ? 'acme' : 'globex', sequence]),
    [
      ['acme', 1],
      ['globex', 1],
      ['acme', 2],
      ['globex', 2],
      ['acme', 3],
      ['acme', 4],
    ],
  );
  assert.ok((await outbox.pending()).oldestSeconds >= 0);
});
