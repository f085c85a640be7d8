import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { TxnId } from '@triplock/payments';
import { loadSql, statementsIn } from '@triplock/postgres';
import { aPayment, createTestDatabase, eventually } from '@triplock/testing';
import { columnLists } from '../columns.ts';
import { UnpostableError, type SettleOutcome, type SettleRequest } from '../ledger.ts';
import { pendingOf, settledNow, traceparent } from '../test/under-test.ts';
import { openPostgresLedger } from './payments.ts';

async function openWithPending(context: TestContext, many: number) {
  const store = await createTestDatabase(context);
  const ledger = openPostgresLedger(store.open('triplock_ledger'));
  const payments = Array.from({ length: many }, () => aPayment());
  await ledger.post(payments.map((each) => pendingOf(each)));
  return { ledger, owner: store.open(), ids: payments.map(({ txnId }) => txnId) };
}

const ending = (txnId: TxnId, more: Partial<SettleRequest> = {}): SettleRequest => {
  const result = { state: 'succeeded' } as const;
  return { txnId, version: 1, traceparent, settledAt: settledNow, result, ...more };
};

test('cards that end at once share a transaction, and a row that somebody holds holds up no other', async (context) => {
  const { ledger, owner, ids } = await openWithPending(context, 20);
  const [held, ...free] = ids as [TxnId, ...TxnId[]];
  let late: Promise<SettleOutcome> | undefined;
  await owner.transaction(async (tx) => {
    await tx.query('SELECT FROM ledger.transactions WHERE txn_id = $1 FOR UPDATE', [held]);
    late = ledger.settle(ending(held));
    const outcomes = await Promise.all(free.map((id) => ledger.settle(ending(id))));
    assert.deepEqual([...new Set(outcomes.map(({ outcome }) => outcome))], ['settled']);
    assert.equal((await ledger.find(held))?.state, 'pending');
    // It waits for the row by itself now.
    await eventually(async () => {
      const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock'`;
      return (await owner.query(waiting)).length === 1;
    });
  });
  assert.deepEqual(await late, { outcome: 'settled' });
  const sql =
    'SELECT count(DISTINCT xmin::text)::int AS many FROM ledger.outbox WHERE txn_id <> $1';
  assert.deepEqual(await owner.query(sql, [held]), [{ many: 1 }]);
});

test('one end that the database refuses spoils no other of its batch', async (context) => {
  const { ledger, ids } = await openWithPending(context, 5);
  const [bad, ...good] = ids as [TxnId, ...TxnId[]];
  const result = { state: 'captured', amount: 2n ** 63n } as const;
  const refused = ledger.settle(ending(bad, { result }));
  const outcomes = good.map((id) => ledger.settle(ending(id)));
  await assert.rejects(refused, UnpostableError);
  for (const outcome of outcomes) assert.deepEqual(await outcome, { outcome: 'settled' });
  assert.equal((await ledger.find(bad))?.state, 'pending');
});

test('a row that a trigger stops, and one that nobody can read, spoil no other of their batch', async (context) => {
  const { ledger, owner, ids } = await openWithPending(context, 5);
  const [stopped, damaged, ...good] = ids as [TxnId, TxnId, ...TxnId[]];
  await owner.query(`
    ALTER TABLE ledger.transactions DISABLE TRIGGER transactions_change_forward,
      DROP CONSTRAINT transactions_details_check`);
  await owner.query(`UPDATE ledger.transactions SET details = '{' WHERE txn_id = $1`, [damaged]);
  await owner.query(`
    CREATE TRIGGER stopped BEFORE UPDATE ON ledger.transactions
    FOR EACH ROW WHEN (OLD.txn_id = '${stopped}') EXECUTE FUNCTION ledger.refuse_change()`);
  for (const bad of [stopped, damaged]) {
    const refused = assert.rejects(ledger.settle(ending(bad)), /refused|no JSON/);
    const id = good.pop()!;
    assert.deepEqual(await ledger.settle(ending(id)), { outcome: 'settled' });
    await refused;
  }
  assert.equal((await owner.query('SELECT FROM ledger.outbox')).length, 2);
});

test('of two requests for one row in a batch one changes it', async (context) => {
  const { ledger, owner, ids } = await openWithPending(context, 1);
  const twice = [0, 1].map(() => ledger.settle(ending(ids[0]!)));
  const outcomes = (await Promise.all(twice)).map(({ outcome }) => outcome);
  assert.deepEqual(outcomes.sort(), ['settled', 'stale']);
  assert.equal((await owner.query('SELECT FROM ledger.outbox')).length, 1);
});

test('what knows a row by its id reads no other, however many are pending that statistics know nothing of', async (context) => {
  const { ledger, owner, ids } = await openWithPending(context, 2_000);
  await Promise.all(ids.map((txnId) => ledger.settle(ending(txnId))));
  // As long as it takes autovacuum: it counts changes against the size of the table.
  await owner.query('ALTER TABLE ledger.transactions SET (autovacuum_enabled = off)');
  await owner.query('VACUUM ANALYZE ledger.transactions');
  await ledger.post(Array.from({ length: 1_000 }, () => pendingOf(aPayment())));
  for (const file of ['settle.sql', 'settlement.sql', 'follow-ups.sql', 'transactions.sql']) {
    const text = loadSql(import.meta.url, file, columnLists);
    const named = [...statementsIn(text)].filter(([name]) => !readsMany.includes(name));
    for (const [name, statement] of named.length === 0 ? [[file, text] as const] : named) {
      const plan = await owner.query(`EXPLAIN (GENERIC_PLAN, FORMAT JSON) ${statement}`);
      assert.doesNotMatch(JSON.stringify(plan), /transactions_due|_not_succeeded|Seq Scan/, name);
    }
  }
});

/** Of one state, or of some time. */
const readsMany = ['takeDue', 'pendingSums', 'pendingIds', 'settledIds', 'listPayments', 'isEmpty'];
