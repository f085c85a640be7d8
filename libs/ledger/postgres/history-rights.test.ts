import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Database } from '@triplock/postgres';
import { aPayment, createTestDatabase, type TestDatabase } from '@triplock/testing';
import { openPostgresLedger } from './payments.ts';

/** A database with one settled and one pending payment. */
async function someHistory(context: TestContext): Promise<TestDatabase> {
  const store = await createTestDatabase(context);
  const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';
  const settlement = { result: { state: 'succeeded' as const }, settledAt: new Date() };
  await openPostgresLedger(store.open('triplock_ledger')).post([
    { payment: aPayment(), traceparent, settlement },
    { payment: aPayment(), traceparent },
  ]);
  return store;
}

const denied = { code: '42501' };
const refusedByTrigger = { code: 'P0001' };

async function refuses(database: Database, statements: readonly string[], error: object) {
  for (const statement of statements) {
    await assert.rejects(database.query(statement), error, statement);
  }
}

const changesOfHistory = [
  'UPDATE ledger.entries SET amount = 1',
  'DELETE FROM ledger.entries',
  'TRUNCATE ledger.entries',
  'UPDATE ledger.disputes SET amount = 1',
  'DELETE FROM ledger.disputes',
  'TRUNCATE ledger.disputes, ledger.dispute_ends',
  `UPDATE ledger.dispute_ends SET ended = 'won'`,
  'DELETE FROM ledger.dispute_ends',
  'TRUNCATE ledger.dispute_ends',
  'DELETE FROM ledger.transactions',
  'TRUNCATE ledger.transactions, ledger.entries, ledger.disputes, ledger.dispute_ends',
  'TRUNCATE ledger.outbox',
  `UPDATE ledger.transactions SET fingerprint = sha256('')`,
  `UPDATE ledger.transactions SET partner_id = 'globex'`,
  `UPDATE ledger.transactions SET details = '{}'`,
  `UPDATE ledger.outbox SET payload = '{}'`,
  `UPDATE ledger.outbox SET order_id = DEFAULT`,
  `UPDATE ledger.outbox SET sequence = 9`,
];

test('no service’s role has a right to change history', async (context) => {
  const store = await someHistory(context);
  const more = ['DELETE FROM ledger.outbox', 'DELETE FROM ledger.provider_events'];
  for (const role of ['triplock_ledger', 'triplock_dispatcher', 'triplock_copy'] as const) {
    await refuses(store.open(role), [...changesOfHistory, ...more], denied);
  }
});

test('even the owner of the tables cannot change history', async (context) => {
  const store = await someHistory(context);
  await refuses(store.open(), changesOfHistory, refusedByTrigger);
});

test('only published events leave the outbox, and nothing younger than a day', async (context) => {
  const store = await someHistory(context);
  const dispatcher = store.open('triplock_dispatcher');
  await assert.rejects(
    dispatcher.query(`SELECT ledger.reap_outbox(interval '23 hours', 1)`),
    /a day/,
  );
  await assert.rejects(
    store.open('triplock_auditor').query(`SELECT ledger.reap_outbox(interval '30 days', 1)`),
    denied,
  );
  await assert.rejects(store.open().query('DELETE FROM ledger.outbox'), refusedByTrigger);
});

test('what is final never changes, and a version only grows', async (context) => {
  const store = await someHistory(context);
  for (const database of [store.open('triplock_ledger'), store.open()]) {
    const final = `WHERE state = 'succeeded'`;
    const changes = [
      `UPDATE ledger.transactions SET version = version + 1, state = 'failed', failure_code = 'x' ${final}`,
      `UPDATE ledger.transactions SET version = version + 1, state = 'pending', settled_at = NULL ${final}`,
      `UPDATE ledger.transactions SET version = version + 1, settled_at = now() ${final}`,
      `UPDATE ledger.transactions SET version = version + 1, provider_intent_id = 'pi_1' ${final}`,
      `UPDATE ledger.transactions SET version = version + 1, events = 0 ${final}`,
      `UPDATE ledger.transactions SET refund_reserved = 1 ${final}`,
      `UPDATE ledger.transactions SET version = version + 1, amount = 1`,
    ];
    await refuses(database, changes, refusedByTrigger);
  }
});

test('refunds never reserve more than their payment', async (context) => {
  const ledger = (await someHistory(context)).open('triplock_ledger');
  const reserve = (amount: string) =>
    ledger.query(`
      UPDATE ledger.transactions SET version = version + 1, refund_reserved = ${amount}
      WHERE state = 'succeeded' RETURNING txn_id`);
  assert.equal((await reserve('amount')).length, 1);
  await assert.rejects(reserve('amount + 1'), { constraint: 'refunds_within_amount' });
});

test('a transaction moves money once, and only if it exists', async (context) => {
  const ledger = (await someHistory(context)).open('triplock_ledger');
  const insert = (txnId: string) =>
    ledger.query(`
      INSERT INTO ledger.entries (txn_id, debit_account, credit_account, amount, currency)
      SELECT ${txnId}, 'acme:clearing', 'acme:payable', 1, 'EUR'
      FROM ledger.transactions WHERE state = 'succeeded'`);
  await assert.rejects(insert('txn_id'), { code: '23505' });
  await assert.rejects(insert('gen_random_uuid()'), { code: '23503' });
});

test('the gateway sees transactions and their disputes and nothing else, the auditor sees all and writes nothing', async (context) => {
  const store = await someHistory(context);
  const gateway = store.open('triplock_gateway');
  assert.equal(await openPostgresLedger(gateway).isEmpty(), false);
  await refuses(
    gateway,
    [
      'SELECT FROM ledger.entries',
      'INSERT INTO ledger.disputes SELECT * FROM ledger.disputes',
      'SELECT FROM ledger.outbox',
      'SELECT FROM ledger.outbox_leases',
      'INSERT INTO ledger.transactions SELECT * FROM ledger.transactions',
      `UPDATE ledger.transactions SET version = version + 1`,
    ],
    denied,
  );
  const auditor = store.open('triplock_auditor');
  const ours = ['transactions', 'entries', 'disputes', 'dispute_ends'];
  for (const table of [...ours, 'outbox', 'outbox_leases', 'outbox_owners']) {
    await auditor.query(`SELECT FROM ledger.${table}`);
    await assert.rejects(auditor.query(`DELETE FROM ledger.${table}`), denied);
  }
});
