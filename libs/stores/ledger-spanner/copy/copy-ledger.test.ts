import { randomUUID } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import assert from 'node:assert/strict';
import { bucketCount } from '@triplock/contracts';
import { openPostgresLedger, openPostgresFollowUps } from '@triplock/ledger';
import { bookTransferOf, pendingOf, settledNow, traceparent } from '@triplock/ledger/test';
import { bucketOf, deriveEventId } from '@triplock/payments';
import { aPayment, aRefund, createTestDatabase } from '@triplock/testing';
import { openSpannerOutbox } from '../outbox.ts';
import { openSpannerLedger } from '../payments.ts';
import { openSpannerFollowUps } from '../follow-ups.ts';
import { insertDispute, insertDisputeEnd } from '../rows.ts';
import type { SpannerDatabase } from '../spanner/database.ts';
import { commitTimestamp } from '../spanner/values.ts';
import { createTestSpanner } from '../test/test-spanner.ts';
import { copyLedgerFrom } from './copy-ledger.ts';

/** A ledger in Spanner, its copy in PostgreSQL, and what brings it up to now. */
async function openBoth(context: TestContext) {
  const spanner = await (await createTestSpanner(context)).open();
  const store = await createTestDatabase(context);
  const postgres = store.open('triplock_copy');
  return {
    spanner,
    postgres,
    ledger: openSpannerLedger(spanner),
    refunds: openSpannerFollowUps(spanner),
    outbox: openSpannerOutbox(spanner),
    copy: copyLedgerFrom(spanner, postgres),
    copied: { ledger: openPostgresLedger(postgres), refunds: openPostgresFollowUps(postgres) },
    differences: () => postgres.query('SELECT kind, id FROM ledger.copy_differences ORDER BY id'),
  };
}

test('a copy follows everything that becomes of payments, refunds and events', async (context) => {
  const both = await openBoth(context);
  const { ledger, refunds, outbox, copy, copied } = both;
  const [transfer, card] = [
    aPayment({ amount: 100n, metadata: { é: '\t' }, description: 'two\nlines' }),
    aPayment({ amount: 999_999_999_999n, paymentMethod: 'pm_card_visa' }),
  ];
  await ledger.post([bookTransferOf(transfer), pendingOf(card)]);
  const done = { transactions: 2, events: 1, moreFollows: false };
  assert.deepEqual(await copy({ counting: true }), done);
  assert.deepEqual(await copied.ledger.find(card.txnId), await ledger.find(card.txnId));
  assert.deepEqual(await copy({ counting: true }), { ...done, transactions: 0, events: 0 });
  await ledger.storeIntent({ txnId: card.txnId, version: 1, provider: 'stripe', intentId: 'pi_1' });
  const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow };
  const charged = { version: 2, traceparent, chargeId: 'ch_1', ...settlement };
  await ledger.settle({ txnId: card.txnId, ...charged });
  await copy({ counting: true });
  for (const disputeId of ['du_1', 'du_2']) await ledger.noteDispute({ ...dispute, disputeId });
  await copy({ counting: true });
  await ledger.noteDispute({ ...dispute, disputeId: 'du_1', end: 'lost' });
  const [given, held] = [aRefund(transfer, { amount: 40n }), aRefund(card)];
  for (const refund of [given, held])
    await refunds.post({ followUp: refund, traceparent, settledAt: settledNow });
  const { leases } = await outbox.leaseBuckets({ owner: 'a', leaseMs: 60_000 });
  const lease = leases[bucketOf(card.txnId, bucketCount)]!;
  const waiting = (await outbox.take([lease], 10)).map(({ id }) => id);
  await outbox.markPublished(lease, waiting);
  await copy({ counting: true });
  for (const { txnId } of [transfer, card]) {
    assert.deepEqual(await copied.ledger.find(txnId), await ledger.find(txnId));
  }
  for (const { txnId } of [given, held]) {
    assert.deepEqual(await copied.refunds.find(txnId), await refunds.find(txnId));
  }
  const kept = await both.postgres.query(`SELECT
    count(*)::int AS events, count(published_at)::int AS published,
    (SELECT string_agg(dispute_id, ' ' ORDER BY sequence) FROM ledger.disputes) AS disputes,
    (SELECT string_agg(dispute_id || ' ' || ended, ' ') FROM ledger.dispute_ends) AS ends
    FROM ledger.outbox`);
  assert.deepEqual(kept, [{ events: 5, published: 3, disputes: 'du_1 du_2', ends: 'du_1 lost' }]);
  assert.deepEqual(await both.differences(), []);
});

test('what history does not allow is not copied, and is recorded', async (context) => {
  const { spanner, ledger, copy, copied, differences } = await openBoth(context);
  const payments = [aPayment({ amount: 100n }), aPayment(), aPayment()];
  await ledger.post(payments.map(bookTransferOf));
  await copy({ counting: true });
  const [raised, undone] = payments.map(({ txnId }) => txnId);
  const change = (txn_id: string, row: object) =>
    spanner.transaction(async (tx) => {
      const columns = { txn_id, version: 2, changed_at: commitTimestamp, ...row };
      tx.write({ kind: 'update', table: 'transactions', row: columns });
    });
  await change(raised!, { amount: 1_000_000 });
  await change(undone!, { state: 'failed', failure_code: 'changed' });
  await spanner.transaction(async (tx) => {
    const [entry] = await tx.query<{ txn_id: string }>('SELECT txn_id FROM entries LIMIT 1');
    tx.write({ kind: 'delete', table: 'entries', key: [entry!.txn_id] });
  });
  await copy({ counting: true });
  assert.equal((await copied.ledger.find(raised!))?.details.money.amount, 100n);
  assert.equal((await copied.ledger.find(undone!))?.state, 'succeeded');
  const found = (await differences()) as { kind: string; id: string }[];
  const ids = found.filter(({ kind }) => kind === 'transaction').map(({ id }) => id);
  assert.deepEqual(ids.sort(), [raised, undone].sort());
  assert.ok(found.some(({ kind, id }) => kind === 'rows' && id.startsWith('entries: 2 ')));
});

/** What the copy follows, or what no history rests on; every other column never changes. */
const changing: Readonly<Record<string, string>> = {
  'transactions.version': 'grows with every change',
  'transactions.due_at': 'when a pending row is looked after',
  'transactions.traceparent': 'which trace it belongs to',
  'transactions.next_action': 'a secret of the customer, which is not copied',
  'transactions.changed_at': 'by it the copy follows',
  'entries.created_at': 'the time that is shown and added up is settled_at',
  'outbox.state': 'an event waits, is published or parked',
  'outbox.parked_reason': 'goes with the state',
  'outbox.published_at': 'goes with the state',
  'outbox.published_epoch': 'goes with the state',
  'outbox.changed_at': 'by it the copy follows',
};

/** What a constraint wants of a column, where a usual value of its type is none. */
const wanted: Readonly<Record<string, object>> = {
  'transactions.kind': { kind: 'order' },
  'transactions.fingerprint': { fingerprint: '0'.repeat(64) },
  'transactions.payment_id': { payment_id: randomUUID(), kind: 'refund' },
  'transactions.currency': { currency: 'USD' },
  'transactions.details': { details: '{"reason":"another"}' },
  'transactions.state': { state: 'failed', failure_code: 'another' },
  'transactions.failure_code': { failure_code: 'another', state: 'failed' },
  'transactions.amount_refunded': { amount_refunded: 7, refund_reserved: 7 },
  'transactions.hold_expires_at': { hold_expires_at: new Date(1), authorized_at: new Date(0) },
  'transactions.closed_by': { closed_by: randomUUID(), authorized_at: new Date(0) },
  'transactions.amount_captured': { amount_captured: 7, state: 'captured' },
  'disputes.id': { id: randomUUID() },
  'dispute_ends.ended': { ended: 'lost' },
  'outbox.event_type': { event_type: 'payment.failed' },
  'outbox.txn_id': { txn_id: randomUUID() },
  'outbox.payment_id': { payment_id: randomUUID() },
};
const ofIntent = { provider: 'stripe', intentId: 'pi_1' } as const;
const dispute = { ...ofIntent, amount: 1n, currency: 'EUR', reason: 'general' };
const usual: Readonly<Record<string, unknown>> = {
  STRING: 'another',
  INT64: 7,
  TIMESTAMP: new Date('2026-01-02T03:04:05.678Z'),
};

test('whatever changes in a ledger against its history is recorded, by every column', async (context) => {
  const { spanner, ledger, copy, differences } = await openBoth(context);
  const columns = await spanner.query<{ table: string; column: string; type: string }>(
    `SELECT c.table_name AS \`table\`, c.column_name AS \`column\`,
            REGEXP_EXTRACT(c.spanner_type, '^[A-Z0-9]+') AS type
     FROM information_schema.columns AS c
     WHERE c.table_name IN ('transactions', 'entries', 'disputes', 'dispute_ends', 'outbox') AND c.is_generated = 'NEVER'
       AND NOT EXISTS (
         SELECT 1 FROM information_schema.index_columns AS k
         WHERE k.table_name = c.table_name AND k.column_name = c.column_name
           AND k.index_type = 'PRIMARY_KEY'
       )`,
  );
  const nameOf = ({ table, column }: (typeof columns)[number]) => `${table}.${column}`;
  const kept = columns.filter((each) => changing[nameOf(each)] === undefined);
  assert.deepEqual(
    columns
      .filter((each) => !kept.includes(each))
      .map(nameOf)
      .sort(),
    Object.keys(changing).sort(),
  );
  const payments = kept.map(() => aPayment({ amount: 100n }));
  await ledger.post(payments.map(bookTransferOf));
  const rows = payments.flatMap(({ txnId, partnerId }) => [
    insertDispute(
      { txnId, partnerId },
      { ...dispute, disputeId: txnId },
      { disputedAt: new Date(0), sequence: 2 },
    ),
    insertDisputeEnd(txnId, { disputeId: txnId, ended: 'won', endedAt: new Date(0) }),
  ]);
  await spanner.transaction(async (tx) => tx.write(...rows));
  await copy({ counting: true });
  const changed_at = commitTimestamp;
  const harmed = kept.map(({ table, column, type }, nth) => {
    const { txnId: txn_id } = payments[nth]!;
    const event_id = deriveEventId(txn_id, 'payment.succeeded');
    const isDispute = table === 'disputes' || table === 'dispute_ends';
    const row_id = { txn_id, ...(isDispute && { dispute_id: txn_id }) };
    const key = table === 'outbox' ? { event_id, changed_at } : row_id;
    const value =
      { bucket: (bucketOf(txn_id, bucketCount) + 1) % bucketCount }[column] ?? usual[type];
    const row = { ...key, ...(wanted[`${table}.${column}`] ?? { [column]: value }) };
    return { table, row, txn_id, id: table === 'outbox' ? event_id : txn_id };
  });
  await spanner.transaction(async (tx) => {
    for (const { table, row, txn_id } of harmed) {
      tx.write({ kind: 'update', table, row });
      tx.write({ kind: 'update', table: 'transactions', row: { txn_id, changed_at } });
    }
  });
  await copy({ counting: false });
  const ofDispute = { disputes: 'dispute', dispute_ends: 'dispute' };
  const kinds = { transactions: 'transaction', entries: 'entry', ...ofDispute };
  const found = ((await differences()) as { kind: string; id: string }[]).map(
    ({ kind, id }) => `${kind} ${id}`,
  );
  const unseen = kept.filter(({ table }, nth) => {
    return !found.includes(`${kinds[table as keyof typeof kinds] ?? 'event'} ${harmed[nth]!.id}`);
  });
  assert.deepEqual(unseen.map(nameOf), []);
});

test('a copier that does nothing loses the lock to the others, and what it had begun', async (context) => {
  const { ledger, spanner, postgres, copy, copied, differences } = await openBoth(context);
  const payment = aPayment();
  await ledger.post([bookTransferOf(payment)]);
  const [isIdle, mayGoOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const states: SpannerDatabase = {
    ...spanner,
    snapshot: async (work) => {
      isIdle.resolve();
      await mayGoOn.promise;
      return spanner.snapshot(work);
    },
  };
  const still = copyLedgerFrom(states, postgres, { idleMaxMs: 300 })({ counting: false });
  await isIdle.promise;
  assert.equal((await copy({ counting: true })).transactions, 1);
  mayGoOn.resolve();
  await assert.rejects(still);
  assert.deepEqual(await copied.ledger.find(payment.txnId), await ledger.find(payment.txnId));
  assert.deepEqual(await differences(), []);
});

test('a backlog is copied in slices that keep what they copied, read now, and leave no gap', async (context) => {
  const both = await openBoth(context);
  const { ledger, refunds, spanner, postgres, copied, differences } = both;
  // More than two of some shard, so more than one slice.
  const payments = Array.from({ length: 36 }, () => aPayment({ amount: 100n }));
  await ledger.post(payments.map(bookTransferOf));
  await makeOlder(spanner, { hours: 3, txnIds: payments.map(({ txnId }) => txnId) });
  const [oldest] = payments;
  const refund = aRefund(oldest!, { amount: 40n });

  let [slices, crashed] = [0, false];
  const watched: SpannerDatabase = {
    ...spanner,
    snapshot: async (work) => {
      assert.deepEqual(await postgres.query(loneSql), []);
      const positions = await postgres.query('SELECT behind FROM ledger.copied');
      assert.deepEqual(positions, slices === 0 ? [] : [{ behind: true }]);
      if (slices > 0 && !crashed) {
        crashed = true;
        // Its payment is in the copy already, and moves on to a later slice.
        await refunds.post({ followUp: refund, traceparent, settledAt: settledNow });
        throw new Error('a crash between two slices');
      }
      slices += 1;
      const earliestMicros = BigInt(Date.now() - 1_000) * 1_000n;
      return spanner.snapshot((moment) => {
        assert.ok(moment.readAtMicros > earliestMicros, 'what was changed long ago is read now');
        return work(moment);
      });
    },
  };
  const copy = copyLedgerFrom(watched, postgres, { sliceRows: 32 });
  await assert.rejects(copy({ counting: true }), /a crash between two slices/);
  const kept = (await postgres.query('SELECT FROM ledger.transactions')).length;
  const one = await copy({ counting: true, slicesMax: 1 });
  const all = await copy({ counting: true });
  const rest = { transactions: one.transactions + all.transactions };
  assert.deepEqual([kept > 0, rest.transactions], [true, 36 - kept + 2]);
  assert.deepEqual(await postgres.query('SELECT behind FROM ledger.copied'), [{ behind: false }]);
  assert.equal((await postgres.query('SELECT FROM ledger.transactions')).length, 37);
  assert.equal((await postgres.query('SELECT FROM ledger.outbox')).length, 37);
  assert.equal((await copied.ledger.find(oldest!.txnId))?.amountRefunded, 40n);
  assert.deepEqual(await copied.ledger.find(oldest!.txnId), await ledger.find(oldest!.txnId));
  assert.deepEqual(await differences(), []);
});

test('several copiers copy each change once', async (context) => {
  const { ledger, spanner, differences, postgres } = await openBoth(context);
  const copy = copyLedgerFrom(spanner, postgres, { sliceRows: 64 });
  await ledger.post(Array.from({ length: 15 }, () => bookTransferOf(aPayment())));
  await ledger.post(Array.from({ length: 15 }, () => bookTransferOf(aPayment())));
  const copies = await Promise.all([copy({ counting: false }), copy({ counting: true })]);
  const copied = copies.reduce((sum, { transactions }) => sum + transactions, 0);
  assert.equal(copied, 30);
  assert.equal((await postgres.query('SELECT FROM ledger.entries')).length, 30);
  assert.deepEqual(await differences(), []);
});

/** What refers to a transaction that is not there. */
const loneSql = `
  SELECT txn_id FROM ledger.transactions AS refund
  WHERE payment_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM ledger.transactions WHERE txn_id = refund.payment_id)
  UNION ALL SELECT event_id FROM ledger.outbox AS event
  WHERE NOT EXISTS (SELECT FROM ledger.transactions WHERE txn_id = event.txn_id)
  UNION ALL SELECT txn_id FROM ledger.transactions AS done
  WHERE state = 'succeeded'
    AND NOT EXISTS (SELECT FROM ledger.entries WHERE txn_id = done.txn_id)`;

/** Has rows be changed last before Spanner forgets old versions, each at a time of its own. */
async function makeOlder(
  spanner: SpannerDatabase,
  { hours, txnIds }: { hours: number; txnIds: readonly string[] },
): Promise<void> {
  await spanner.transaction(async (tx) => {
    for (const [at, txn_id] of txnIds.entries()) {
      const changed_at = new Date(Date.now() - hours * 3_600_000 + at);
      tx.write({ kind: 'update', table: 'transactions', row: { txn_id, changed_at } });
    }
  });
}
