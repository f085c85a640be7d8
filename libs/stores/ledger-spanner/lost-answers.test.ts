import { test, type TestContext } from 'node:test';
import assert from 'node:assert/strict';
import { bucketCount } from '@triplock/contracts';
import { UnpostableError } from '@triplock/ledger';
import { bookTransferOf, pendingOf, settledNow, traceparent } from '@triplock/ledger/test';
import { bucketOf } from '@triplock/payments';
import { aPayment, aRefund, freePort } from '@triplock/testing';
import { openSpannerOutbox } from './outbox.ts';
import { openSpannerLedger } from './payments.ts';
import { openSpannerFollowUps } from './follow-ups.ts';
import type { Calls } from './spanner/calls.ts';
import { openCalls, spannerOver } from './spanner/database.ts';
import { status } from './spanner/errors.ts';
import { createTestSpanner } from './test/test-spanner.ts';

/**
 * What becomes of a commit: it is done or not, and nothing is heard of it, or Spanner aborts it.
 */
type CommitFault = 'answer lost' | 'request lost' | 'aborted';

/** Commits that go wrong as `faults` says, one after the other; they go well once it is empty. */
function troubledCommits(calls: Calls): { commit: Calls['commit']; faults: CommitFault[] } {
  const faults: CommitFault[] = [];
  const commit: Calls['commit'] = async (request) => {
    const fault = faults.shift();
    if (fault === 'aborted') {
      await calls.rollback(request);
      throw Object.assign(new Error('aborted'), { code: status.aborted });
    }
    if (fault !== 'request lost') await calls.commit(request);
    if (fault !== undefined) throw Object.assign(new Error('lost'), { code: status.unknown });
  };
  return { commit, faults };
}

/** A database whose commits can be made to go wrong. */
async function openTroubled(context: TestContext) {
  const store = await createTestSpanner(context);
  const calls = await openCalls(store);
  const { commit, faults } = troubledCommits(calls);
  const database = spannerOver({ ...calls, commit });
  context.after(() => database.close());
  const count = async (table: 'transactions' | 'entries' | 'outbox') =>
    (await database.query(`SELECT 1 AS one FROM ${table}`)).length;
  const parts = {
    ledger: openSpannerLedger(database),
    refunds: openSpannerFollowUps(database),
    outbox: openSpannerOutbox(database),
  };
  return { store, calls, database, faults, count, ...parts };
}

const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow, traceparent };

test('what a commit without an answer did is known again, and not done twice', async (context) => {
  const { ledger, refunds, outbox, faults, count } = await openTroubled(context);
  const card = aPayment({ amount: 100n, paymentMethod: 'pm_card_visa' });
  const { txnId } = card;
  await ledger.post([pendingOf(card)]);
  const intent = { txnId, version: 1, provider: 'stripe' as const, intentId: 'pi_1' };
  faults.push('answer lost');
  assert.deepEqual(await ledger.storeIntent(intent), { outcome: 'stored', version: 2 });
  assert.deepEqual(await ledger.storeIntent(intent), { outcome: 'stale' });
  faults.push('answer lost');
  assert.deepEqual(await ledger.settle({ txnId, version: 2, ...settlement }), {
    outcome: 'settled',
  });
  const refund = aRefund(card, { amount: 40n });
  faults.push('answer lost');
  const held = await refunds.post({ followUp: refund, traceparent, settledAt: settledNow });
  // Somebody may have asked the provider: as after a redelivery.
  assert.equal(held.outcome, 'unfinished');
  assert.ok(held.outcome === 'unfinished');
  faults.push('answer lost');
  const request = { txnId: refund.txnId, version: held.followUp.version, ...settlement };
  assert.deepEqual(await refunds.settle(request), { outcome: 'settled' });
  assert.deepEqual(await refunds.settle(request), { outcome: 'stale' });
  assert.deepEqual([await count('entries'), await count('outbox')], [2, 2]);
  assert.equal((await ledger.find(txnId))?.amountRefunded, 40n);

  const { leases } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 60_000 });
  const written = (await outbox.take(leases, 100)).map(({ id }) => id);
  faults.push('answer lost', 'answer lost');
  assert.equal(await outbox.markPublished(leases[bucketOf(txnId, bucketCount)]!, written), 2);
  faults.push('answer lost');
  assert.deepEqual((await outbox.leaseBuckets({ owner: 'a', leaseMs: 60_000 })).leases, leases);
});

test('a batch whose commit had no answer is reported as duplicates, and posted once', async (context) => {
  const { ledger, faults, count } = await openTroubled(context);
  const batch = [bookTransferOf(aPayment()), pendingOf(aPayment())];
  faults.push('answer lost');
  assert.deepEqual(await ledger.post(batch), [
    { outcome: 'already-recorded', state: 'succeeded' },
    { outcome: 'unfinished', version: 1 },
  ]);
  assert.deepEqual([await count('transactions'), await count('outbox')], [2, 1]);
});

test('a transaction that is aborted is done again whole, however often', async (context) => {
  const { ledger, faults, count } = await openTroubled(context);
  faults.push('aborted', 'aborted', 'aborted');
  assert.deepEqual(await ledger.post([bookTransferOf(aPayment())]), [{ outcome: 'posted' }]);
  assert.deepEqual([await count('transactions'), await count('entries')], [1, 1]);
});

test('work that throws writes nothing, and its session is used again', async (context) => {
  const { database, count } = await openTroubled(context);
  for (let n = 0; n < 20; n += 1) {
    const changedItsMind = database.transaction(async (tx) => {
      await tx.query('SELECT bucket FROM outbox_leases');
      const row = { bucket: 1, epoch: 1, expires_at: new Date() };
      tx.write({ kind: 'insert', table: 'outbox_leases', row });
      throw new Error('changed its mind');
    });
    await assert.rejects(changedItsMind, /changed its mind/);
  }
  assert.deepEqual(await database.query('SELECT bucket FROM outbox_leases'), []);
  assert.equal(await count('outbox'), 0);
});

test('a read waits for no transaction, however long that one is repeated', async (context) => {
  const { store, ledger } = await openTroubled(context);
  const database = spannerOver(await openCalls(store), { sessionsMax: 1, transactionsMax: 1 });
  context.after(() => database.close());
  const [begun, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const long = database.transaction(async (tx) => {
    await tx.query('SELECT bucket FROM outbox_leases');
    begun.resolve();
    await mayEnd.promise;
  });
  const next = database.transaction(async (tx) => tx.query('SELECT bucket FROM outbox_leases'));
  await begun.promise;
  await database.ping();
  assert.equal(await ledger.isEmpty(), true);
  mayEnd.resolve();
  await Promise.all([long, next]);
});

test('a session that the server forgot is replaced, for reads and for writes', async (context) => {
  const { calls, ledger, store } = await openTroubled(context);
  let created = 0;
  const createSession = async () => {
    const name = await calls.createSession();
    // The first two of the transactions are gone before they are used, and the first of the reads.
    if ([0, 1, 3].includes(created)) await calls.deleteSession(name);
    created += 1;
    return name;
  };
  const database = spannerOver(
    { ...(await openCalls(store)), createSession },
    {
      sessionsMax: 1,
      transactionsMax: 1,
    },
  );
  context.after(() => database.close());
  await openSpannerLedger(database)
    .post([bookTransferOf(aPayment())])
    .catch(assert.fail);
  assert.equal(await ledger.isEmpty(), false);
  assert.equal(await openSpannerLedger(database).isEmpty(), false);
  assert.equal(created, 5);
});

test('an outage is not the input’s fault', async () => {
  const emulatorHost = `127.0.0.1:${await freePort()}`;
  const database = 'projects/triplock/instances/tests/databases/nowhere';
  const calls = await openCalls({ database, emulatorHost, callLimitMs: 500 });
  const away = spannerOver(calls, { transactionLimitMs: 0 });
  const ledger = openSpannerLedger(away);
  const posted = ledger.post([bookTransferOf(aPayment())]);
  await assert.rejects(posted, (error) => !(error instanceof UnpostableError));
  await assert.rejects(ledger.ping());
  await away.close();
});
