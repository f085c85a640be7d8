import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { aClaim, complete } from '@triplock/claims/test';
import { openPostgresClaims, openPostgresWalk } from '@triplock/claims-postgres';
import { encodePaymentAccepted } from '@triplock/contracts';
import { createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, createTestDatabase } from '@triplock/testing';
import type { Bounds, ReceivedRecord } from '@triplock/transport';
import { observe, resultOf } from './audit.ts';
import { recordAcceptedBatch, recordSkipped } from './kafka-records.ts';
import { findLostRecords } from './lost-records.ts';
import { auditorMetrics } from './metrics.ts';
import { anAuditorOf } from './test/whole-system.ts';
import { compareClaims } from './unaccounted-claims.ts';
import { readUnread } from './unread-records.ts';

const topic = 'payments.accepted.v1';

/** An auditor, and a log of partitions that a test may shorten at either end. */
async function anAuditor(context: TestContext) {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_auditor');
  const bounds = new Map<number, Bounds>([[0, { start: 0n, end: 0n }]]);
  const lost = {
    database,
    log: { topic, bounds: async () => bounds },
    logger: createLogger({ service: 'test', instance: 'test', level: 'silent' }),
    confirmMs: 0,
  };
  const record = recordAcceptedBatch(lost, auditorMetrics(createMetrics('test')), { apartMs: 0 });
  return {
    store,
    database,
    bounds,
    lost,
    record,
    look: () => findLostRecords(lost),
    read: (...offsets: bigint[]) => record({ records: offsets.map((at) => aRecord(at)) }),
    fetch: (from: bigint, ...offsets: bigint[]) =>
      record({ from, records: offsets.map((at) => aRecord(at)) }),
    skip: (from: bigint, next: bigint) => recordSkipped(lost)({ partition: 0, from, next }),
    again: (records: readonly ReceivedRecord[]) => record({ records }),
    found: () =>
      database.query(
        'SELECT kafka_partition AS partition, from_offset AS from, to_offset AS to, why FROM accepted_lost ORDER BY lost_id',
      ),
    next: async () => {
      const [row] = await database.query<{ next_offset: bigint }>(
        'SELECT next_offset FROM accepted_positions WHERE kafka_partition = 0',
      );
      return row?.next_offset;
    },
  };
}

function aRecord(offset: bigint, payment = aPayment()): ReceivedRecord {
  const { key, value, headers } = encodePaymentAccepted(payment, '');
  const at = { topic, partition: 0, offset, timestamp: '0' };
  const sender = { partner_id: Buffer.from(headers.partner_id) };
  return { ...at, key: Buffer.from(key), value, headers: sender };
}

test('what was deleted up to the end while nobody read is lost, once, and found without any record', async (context) => {
  const { bounds, look, read, found, next } = await anAuditor(context);
  await look();
  await read(0n, 1n);
  bounds.set(0, { start: 0n, end: 5n });
  await look();
  assert.deepEqual([await found(), await next()], [[], 2n]);
  bounds.set(0, { start: 5n, end: 5n });
  await look();
  await look();
  assert.deepEqual(await found(), [{ partition: 0, from: 2n, to: 5n, why: 'dropped' }]);
  assert.equal(await next(), 5n);
});

test('what is dropped after it was read and was no record is not lost', async (context) => {
  const { bounds, look, read, skip, found, next } = await anAuditor(context);
  await look();
  await read(0n, 1n);
  await skip(2n, 3n); // The marker of a transaction, at the end of the partition.
  assert.equal(await next(), 3n);
  bounds.set(0, { start: 3n, end: 3n });
  await look();
  assert.deepEqual(await found(), []);
});

test('what was deleted before the records that are read now is lost', async (context) => {
  const { bounds, look, read, found, next } = await anAuditor(context);
  await look();
  await read(0n);
  bounds.set(0, { start: 4n, end: 6n });
  await read(4n, 5n);
  await look();
  assert.deepEqual(await found(), [{ partition: 0, from: 1n, to: 4n, why: 'dropped' }]);
  assert.equal(await next(), 6n);
});

test('a control record or an aborted transaction inside the log is no loss, nor is a redelivery', async (context) => {
  const { bounds, look, again, found, next } = await anAuditor(context);
  await look();
  const records = [0n, 1n, 5n, 9n].map((offset) => aRecord(offset));
  bounds.set(0, { start: 0n, end: 11n });
  await again(records.slice(0, 2));
  await again(records.slice(2));
  await again(records);
  await again(records.slice(0, 1));
  await look();
  assert.deepEqual([await found(), await next()], [[], 10n]);
});

test('what the group passed and a database that was set back does not have is read without any new record', async (context) => {
  const { bounds, look, read, lost, record, found, next } = await anAuditor(context);
  await look();
  await read(0n, 1n);
  bounds.set(0, { start: 0n, end: 9n });
  const asked: unknown[] = [];
  const group = { offset: 2n };
  const pass = readUnread({
    ...lost,
    record,
    accepted: {
      passed: async () => new Map([[0, group.offset]]),
      // At its end there is the marker of a transaction.
      readAgain: async (from, take, only) => {
        asked.push([from, only]);
        await take([aRecord(2n), aRecord(3n)]);
        await take([aRecord(6n)]);
        return new Map([[0, 8n]]);
      },
    },
  });
  assert.deepEqual([await pass(), asked, await next()], [0, [], 2n]);
  group.offset = 7n;
  assert.deepEqual([await pass(), await next()], [1, 8n]);
  assert.deepEqual(asked, [[new Map([[0, 2n]]), [0]]]);
  assert.deepEqual([await pass(), await found()], [0, []]);
});

test('what the group passed and a database that was set back does not have is read first', async (context) => {
  const { bounds, look, read, fetch, skip, found, next } = await anAuditor(context);
  await look();
  await read(0n, 1n);
  bounds.set(0, { start: 0n, end: 9n });
  assert.deepEqual([await fetch(5n, 5n, 6n), await next()], [{ readFrom: 2n }, 2n]);
  // The group was joined again before that came.
  assert.deepEqual([await fetch(5n, 5n, 6n), await next()], [{ readFrom: 2n }, 2n]);
  assert.deepEqual([await fetch(2n, 4n), await next()], [undefined, 5n]);
  // A marker behind it passes nothing, and the next record tells.
  await skip(6n, 7n);
  assert.deepEqual([await fetch(7n, 7n), await next()], [{ readFrom: 5n }, 5n]);
  // From there on, there is no other record.
  assert.deepEqual([await fetch(5n, 7n), await next()], [undefined, 8n]);
  assert.deepEqual(await found(), []);
});

test('of what such a database does not have, the log still has a part', async (context) => {
  const { bounds, look, read, fetch, found, next } = await anAuditor(context);
  await look();
  await read(0n, 1n);
  bounds.set(0, { start: 4n, end: 9n });
  assert.deepEqual([await fetch(6n, 6n), await next()], [{ readFrom: 4n }, 2n]);
  assert.deepEqual([await fetch(4n, 4n, 5n, 6n), await next()], [undefined, 7n]);
  assert.deepEqual(await found(), [{ partition: 0, from: 2n, to: 4n, why: 'dropped' }]);
});

test('an end that is before what was read is believed when it is still so', async (context) => {
  const { bounds, look, read, found, next } = await anAuditor(context);
  await look();
  await read(0n, 1n, 2n);
  const electing = [1n, 3n].map((end) => ({ start: 0n, end }));
  const forget = bounds.get.bind(bounds);
  bounds.get = () => electing.shift();
  await look();
  assert.deepEqual([await found(), electing], [[], []]);
  bounds.get = forget;
  bounds.set(0, { start: 0n, end: 1n });
  await look();
  assert.deepEqual(await found(), [{ partition: 0, from: 1n, to: 3n, why: 'cut-off' }]);
  assert.equal(await next(), 1n);
});

test('a topic made anew is seen by new records at offsets that had been passed', async (context) => {
  const { bounds, look, read, found, next } = await anAuditor(context);
  await look();
  await read(0n, 1n, 2n, 3n);
  bounds.set(0, { start: 0n, end: 6n });
  await read(0n, 1n);
  assert.deepEqual(await found(), [{ partition: 0, from: 0n, to: 4n, why: 'begun-again' }]);
  assert.equal(await next(), 2n);
  await read(2n, 3n, 4n, 5n);
  await look();
  assert.equal((await found()).length, 1);
});

test('what left the log before it was ever read is no loss; of a partition added later it is', async (context) => {
  const { bounds, look, read, found } = await anAuditor(context);
  bounds.set(0, { start: 7n, end: 9n });
  await look();
  await read(7n, 8n);
  assert.deepEqual(await found(), []);
  bounds.set(1, { start: 2n, end: 2n });
  await look();
  assert.deepEqual(await found(), [{ partition: 1, from: 0n, to: 2n, why: 'dropped' }]);
});

/** An auditor whose claims are in PostgreSQL; `answer` gives a payment its 202. */
async function aComparison(context: TestContext) {
  const auditor = await anAuditor(context);
  const { store, database, lost } = auditor;
  const owner = store.open();
  const named = { namespace: 'claims', applicationName: 'test', logger: lost.logger };
  const claims = await openPostgresClaims({ ...named, url: store.url('triplock_claims') });
  const way = { away: false, worker: 0n };
  const { pass, close } = compareClaims({
    database,
    log: lost.log,
    logger: lost.logger,
    perSecond: 2,
    worker: { committed: async () => new Map([[0, way.worker]]) },
    openWalk: async () => {
      if (way.away) throw new Error('no claim store answers');
      return openPostgresWalk({ ...named, url: store.url('triplock_auditor') });
    },
  });
  context.after(() => Promise.all([close(), claims.close()]));
  const step = async () => {
    await owner.query('UPDATE auditor.claim_walk SET due_at = now()');
    await pass();
    const [at] = await database.query<{ cursor: string | null }>('SELECT cursor FROM claim_walk');
    return at!.cursor;
  };
  return {
    ...auditor,
    way,
    owner,
    close,
    step,
    answer: async () => {
      const payment = aPayment();
      const { txnId, partnerId, fingerprint } = payment;
      await complete(claims, aClaim({ txnId, partnerId, fingerprint, acceptedAt: new Date() }));
      return payment;
    },
    compare: async () => {
      while ((await step()) !== null);
    },
    audit: async () => resultOf(await observe(anAuditorOf(database)), { final: false }),
    acknowledge: (subject: string) =>
      owner.query(
        `INSERT INTO auditor.operator_acts (act, subject, done_by) VALUES ('acknowledge', $1, 'ada')`,
        [subject],
      ),
  };
}

const idsOf = (drift: readonly { check: string; ids: readonly string[] }[]) =>
  drift.find(({ check }) => check === 'claim-unaccounted')?.ids.toSorted() ?? [];

test('what Kafka lost is named by the claims, once worker and auditor have passed where it was', async (context) => {
  const { bounds, look, way, again, answer, compare, audit } = await aComparison(context);
  await look();
  const lost = [await answer(), await answer(), await answer()]
    .map(({ txnId }) => txnId)
    .toSorted();
  const late = await answer();
  bounds.set(0, { start: 0n, end: 4n });
  await compare();
  assert.deepEqual(idsOf((await audit()).drift), []);
  bounds.set(0, { start: 3n, end: 4n });
  way.worker = 4n;
  await compare();
  assert.deepEqual(idsOf((await audit()).drift), []);
  await again([aRecord(3n, late)]);
  await compare();
  assert.deepEqual(idsOf((await audit()).drift), lost);
});

test('a claim is accounted for by a payment that is posted after all, and by what is acknowledged, not by what comes later', async (context) => {
  const { bounds, look, way, again, answer, compare, audit, acknowledge, skip, owner } =
    await aComparison(context);
  await look();
  const [retried, served] = [await answer(), await answer()];
  bounds.set(0, { start: 2n, end: 2n });
  way.worker = 2n;
  await look();
  await compare();
  assert.deepEqual(idsOf((await audit()).drift), [retried.txnId, served.txnId].toSorted());
  bounds.set(0, { start: 2n, end: 3n });
  await again([aRecord(2n, retried)]);
  assert.deepEqual(idsOf((await audit()).drift), [served.txnId]);
  await acknowledge('lost:1');
  assert.deepEqual((await audit()).drift, []);
  const vanished = await answer();
  bounds.set(0, { start: 2n, end: 4n });
  await skip(3n, 4n);
  way.worker = 4n;
  await compare();
  assert.deepEqual(idsOf((await audit()).drift), [vanished.txnId]);
  await acknowledge(`claim:${vanished.txnId}`);
  assert.deepEqual(idsOf((await audit()).drift), []);
  // Another body of the key, which was lost as well later, is not what was acknowledged.
  await owner.query(
    `INSERT INTO auditor.claims_unaccounted (
       txn_id, fingerprint, partner_id, accepted_at, topic, kafka_partition, before_offset, confirmed_at
     )
     SELECT txn_id, sha256('other'), partner_id, now(), topic, kafka_partition, before_offset, now()
     FROM auditor.claims_unaccounted WHERE txn_id = $1`,
    [vanished.txnId],
  );
  assert.deepEqual(idsOf((await audit()).drift), [vanished.txnId]);
});

test('claims that cannot be read are not compared, which fails nothing else, and the walk goes on where it was', async (context) => {
  const { bounds, look, way, answer, step, close, audit } = await aComparison(context);
  await look();
  bounds.set(0, { start: 0n, end: 5n });
  for (let n = 0; n < 5; n += 1) await answer();
  const cursor = await step();
  assert.notEqual(cursor, null);
  await close();
  way.away = true;
  assert.equal(await step(), cursor);
  const { ok, notCompared, inFlight } = await audit();
  assert.deepEqual([ok, notCompared.map(({ part }) => part)], [true, ['claims']]);
  assert.deepEqual(inFlight.waiting.find(({ check }) => check === 'not-compared')?.ids, ['claims']);
  way.away = false;
  assert.notEqual(await step(), cursor);
  assert.deepEqual((await audit()).notCompared, []);
});
