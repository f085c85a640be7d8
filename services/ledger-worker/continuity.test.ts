import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { encodePaymentEvent, type EncodedRecord } from '@triplock/contracts';
import {
  openPostgresContinuity,
  openPostgresLedger,
  openPostgresRecovery,
  settledPayment,
  settlementEvent,
} from '@triplock/ledger';
import type { Fingerprint } from '@triplock/payments';
import { createLogger, createMetrics } from '@triplock/runtime';
import {
  aPayment,
  aRefund,
  commitTestOffset,
  createTestDatabase,
  createTestTopic,
  emptyTestTopic,
  eventually,
  testNamespace,
} from '@triplock/testing';
import { openEventArchive, openEventArchiveReader, openPassedRecords } from '@triplock/transport';
import { watchContinuity } from './continuity.ts';
import { workerMetrics } from './metrics.ts';
import { openPostAgain } from './batch/post-again.ts';
import { aPipeline, ledgerCounts, outcomesOf, recordOf, refundRecordOf } from './test/pipeline.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

/** A ledger with an archive, and whoever watches over it. */
async function aWatched(context: TestContext) {
  const store = await createTestDatabase(context);
  const topic = await createTestTopic(context);
  const told = { ...topic, clientId: 'test', logger };
  const archive = openEventArchive(told);
  context.after(() => archive.close());
  const [owner, role] = [store.open(), store.open('triplock_ledger')];
  const ledger = openPostgresLedger(role);
  const continuity = openPostgresContinuity(role);
  const reader = openEventArchiveReader({ ...told, driver: 'platformatic' });
  // Nothing was accepted: what is posted here comes from nowhere.
  const nothing = async () => new Map();
  const accepted = { passed: nothing, readPassed: nothing, readAgain: nothing };
  const postAgain = { lackingOf: async () => [], post: async () => undefined };
  const noteLost = async () => undefined;
  /** A worker as it starts: what one knew before is of no use. */
  const aWorker = () => {
    const metrics = workerMetrics(createMetrics('test'));
    const { pass, requireWhole } = watchContinuity({
      continuity,
      archive: reader,
      accepted,
      postAgain,
      noteLost,
      metrics,
      logger,
      noteEveryMs: 0,
    });
    const alarm = async () => (await metrics.setBack.get()).values[0]?.value;
    /** What it comes to, once nothing is left to be found out. */
    const look = async () => {
      while ((await pass()) > 0);
      return (await continuity.look()).state;
    };
    /** Notes what is told by now: it is held back by one note. */
    const noteTwice = async () => {
      assert.deepEqual([await look(), await look()], ['known', 'known']);
    };
    return { look, noteTwice, requireWhole, alarm };
  };
  /** Posts a book transfer, and has its event archived as a dispatcher does. */
  const tell = async () => {
    const payment = aPayment();
    const settlement = { result: { state: 'succeeded' as const }, settledAt: new Date() };
    await ledger.post([{ payment, traceparent, settlement }]);
    const event = settlementEvent(settledPayment(payment, settlement), 1);
    await archive.append([encodePaymentEvent(event).payload]);
    return event.event_id;
  };
  /** As on a standby that was behind. */
  const lose = async (id: string) => {
    await owner.query(
      `UPDATE ledger.outbox SET state = 'published', published_at = now(), published_epoch = 1
       WHERE event_id = $1`,
      [id],
    );
    await owner.query('DELETE FROM ledger.outbox WHERE event_id = $1', [id]);
  };
  const onAnotherServer = () =>
    owner.query(`UPDATE ledger.continuity SET server = 'another', posted_on = 'another'`);
  return { owner, topic, continuity, tell, lose, aWorker, onAnotherServer };
}

test('on another server that has all that was told a worker goes on by itself', async (context) => {
  const { owner, tell, aWorker, onAnotherServer } = await aWatched(context);
  await tell();
  const worker = aWorker();
  assert.throws(worker.requireWhole, /nothing is decided before/);
  await worker.noteTwice();
  await tell();
  assert.equal(await worker.look(), 'known');
  await owner.query(
    `UPDATE ledger.outbox SET state = 'published', published_at = now(), published_epoch = 1`,
  );
  await onAnotherServer();
  await assert.rejects(tell(), { code: '55TL1' });
  assert.equal(await worker.look(), 'known');
  // Its consumers may have lost what they had of the newest one, noted or not: it goes out again.
  const states = await owner.query('SELECT state FROM ledger.outbox ORDER BY order_id');
  assert.deepEqual(states, [{ state: 'published' }, { state: 'pending' }]);
  worker.requireWhole();
  assert.equal(await worker.alarm(), 0);
  await tell();
});

test('on one that lacks what was told every worker waits for rewind, also one that starts afterwards', async (context) => {
  const { owner, tell, lose, aWorker, onAnotherServer } = await aWatched(context);
  const lost = await tell();
  await lose(lost);
  await onAnotherServer();
  const worker = aWorker();
  assert.equal(await worker.look(), 'set-back');
  assert.throws(worker.requireWhole, /npm run rewind/);
  assert.equal(await worker.alarm(), 1);
  await assert.rejects(tell(), { code: '55TL1' });
  const next = aWorker();
  assert.equal(await next.look(), 'set-back');
  assert.throws(next.requireWhole, /npm run rewind/);
  await owner.query(
    'UPDATE ledger.continuity SET server = ledger.this_server(), set_back_at = NULL',
  );
  assert.equal(await worker.look(), 'known');
  worker.requireWhole();
  assert.equal(await worker.alarm(), 0);
});

test('a server that is come back to, and finds itself in its row, is looked at as another one', async (context) => {
  const { owner, tell, lose, aWorker } = await aWatched(context);
  const worker = aWorker();
  assert.equal(await worker.look(), 'known');
  const left = await owner.query<{ archived: object }>('SELECT archived FROM ledger.continuity');
  const told = await tell();
  await aWorker().noteTwice();
  assert.equal(await worker.look(), 'known');
  // It has gone on elsewhere for a while, and is here again: all that it told there is lacking.
  await lose(told);
  await owner.query('UPDATE ledger.continuity SET archived = $1', [left[0]!.archived]);
  assert.equal(await worker.look(), 'set-back');
});

test('while nobody can look at the server nothing is said of it, and why is', async (context) => {
  const { owner, aWorker } = await aWatched(context);
  const worker = aWorker();
  assert.equal(await worker.look(), 'known');
  worker.requireWhole();
  await owner.query('DELETE FROM ledger.continuity');
  await assert.rejects(worker.look());
  assert.throws(worker.requireWhole, /nothing is decided before: .*`npm run rewind` makes anew/);
});

test('what was archived before the last note is not asked for again, as it may have left the outbox', async (context) => {
  const { tell, lose, aWorker, onAnotherServer } = await aWatched(context);
  const old = await tell();
  await aWorker().noteTwice();
  await lose(old);
  await tell();
  await onAnotherServer();
  assert.equal(await aWorker().look(), 'known');
});

test('a server whose note is older than all that Kafka still has may lack anything', async (context) => {
  const { topic, tell, aWorker, onAnotherServer } = await aWatched(context);
  await aWorker().noteTwice();
  await tell();
  await emptyTestTopic(topic);
  await onAnotherServer();
  assert.equal(await aWorker().look(), 'set-back');
});

/** A worker whose group has passed records, and whoever watches over its ledger. */
async function aGroupThatPassed(context: TestContext, records: readonly EncodedRecord[]) {
  const { append, owner, settings, store, work, deadLetters } = await aPipeline(context);
  for (const record of records) await append(record);
  const { ACCEPTED_TOPIC: topic, TOLD_TOPIC: told, KAFKA_BROKERS: broker } = settings;
  const groupId = testNamespace('worker');
  await commitTestOffset({ brokers: [broker], topic }, { groupId, offset: records.length });
  const { worker, allCommitted } = work({ groupId });
  const role = store.open('triplock_ledger');
  const continuity = openPostgresContinuity(role);
  const kafka = { brokers: [broker], clientId: 'test', logger, driver: 'platformatic' } as const;
  const archive = openEventArchiveReader({ ...kafka, topic: told });
  const accepted = openPassedRecords({ ...kafka, topic, groupId });
  context.after(() => accepted.close());
  const { noteLost } = openPostgresRecovery(role);
  const { metrics } = worker;
  const { pass } = watchContinuity({
    continuity,
    archive,
    accepted,
    postAgain: openPostAgain(worker, continuity),
    // As of then nothing can be decided.
    noteLost: async (since) => {
      assert.equal((await continuity.look()).state, 'unknown');
      await noteLost(since);
    },
    metrics,
    logger,
  });
  const onAnotherServer = async () => {
    await owner.query(`UPDATE ledger.continuity SET server = 'another', posted_on = 'another'`);
    while ((await pass()) > 0);
    assert.equal((await continuity.look()).state, 'known');
  };
  const rewinds = () => owner.query('SELECT since FROM ledger.rewinds WHERE NOT disputes_only');
  return { append, owner, worker, deadLetters, allCommitted, onAnotherServer, rewinds };
}

test('what was posted and not told, and is lacking on another server, is posted again there', async (context) => {
  const [payment, card] = [aPayment(), aPayment({ paymentMethod: 'pm_card_visa' })];
  const refund = aRefund(payment);
  const loser = { ...payment, fingerprint: 'f'.repeat(64) as Fingerprint };
  const system = await aGroupThatPassed(context, [
    recordOf(payment),
    recordOf(card),
    refundRecordOf(refund),
    recordOf(loser),
    { ...recordOf(payment), value: Buffer.from('poison') },
  ]);
  const { append, owner, worker, deadLetters, allCommitted, onAnotherServer, rewinds } = system;
  assert.deepEqual(await ledgerCounts(owner), { rows: 0, entries: 0, events: 0 });
  await onAnotherServer();
  const posted = await owner.query<{ txn_id: string }>('SELECT txn_id FROM ledger.transactions');
  const ids = [payment, card, refund].map(({ txnId }) => txnId);
  assert.deepEqual(posted.map((row) => row.txn_id).sort(), ids.sort());
  assert.equal((await rewinds()).length, 1);
  // What is no request was set aside before the group passed it.
  const { 'key-conflict': conflicts, refused = 0 } = outcomesOf(worker);
  assert.deepEqual([conflicts, refused], [1, 0]);
  // What stood behind is read as ever, and what is there is left alone.
  const next = aPayment();
  await append(recordOf(next));
  await allCommitted();
  await eventually(async () => deadLetters.length === 1);
  const before = await ledgerCounts(owner);
  await onAnotherServer();
  assert.deepEqual(await ledgerCounts(owner), before);
  assert.equal((await rewinds()).length, 1);
});

test('where nothing is lacking the provider is not asked for what it did', async (context) => {
  const system = await aGroupThatPassed(context, []);
  const { append, owner, allCommitted, onAnotherServer, rewinds } = system;
  await append(recordOf(aPayment()));
  await allCommitted();
  await onAnotherServer();
  assert.deepEqual(await ledgerCounts(owner), { rows: 1, entries: 1, events: 1 });
  assert.deepEqual(await rewinds(), []);
});
