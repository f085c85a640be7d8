import type { TestContext } from 'node:test';
import {
  chargingConformance,
  type ChargingUnderTest,
  ledgerConformance,
  refundsConformance,
  type StoredEvent,
} from '@triplock/ledger/test';
import { openSpannerLedger } from './payments.ts';
import { openSpannerFollowUps } from './follow-ups.ts';
import { commitTimestamp } from './spanner/values.ts';
import { createTestSpanner } from './test/test-spanner.ts';
import { takeDueFromSpanner, wakeDueInSpanner } from './unfinished.ts';

async function openUnderTest(context: TestContext): Promise<ChargingUnderTest> {
  const store = await createTestSpanner(context);
  const [one, two] = [await store.open(), await store.open()];
  return {
    ledger: openSpannerLedger(one),
    another: openSpannerLedger(two),
    followUps: openSpannerFollowUps(one),
    otherFollowUps: openSpannerFollowUps(two),
    takeDue: takeDueFromSpanner(one),
    wakeDue: wakeDueInSpanner(one),
    letTimePass: (only) =>
      one.transaction(async (tx) => {
        const sql = `SELECT txn_id, version, CURRENT_TIMESTAMP() AS due_at FROM transactions WHERE state = 'pending'`;
        const rows = await tx.query<{ txn_id: string; version: bigint; due_at: Date }>(sql);
        for (const { txn_id, version, due_at } of rows) {
          if (txn_id !== (only ?? txn_id)) continue;
          const row = { txn_id, version: version + 1n, due_at, changed_at: commitTimestamp };
          tx.write({ kind: 'update', table: 'transactions', row });
        }
      }),
    dueInMs: async (txnId) => {
      const sql = `
        SELECT TIMESTAMP_DIFF(due_at, CURRENT_TIMESTAMP(), MILLISECOND) AS rest
        FROM transactions WHERE txn_id = @txnId`;
      const [row] = await one.query<{ rest: bigint }>(sql, { txnId });
      return Number(row!.rest);
    },
    writeDetails: (txnId, details) =>
      one.transaction(async (tx) => {
        const row = { txn_id: txnId, details, changed_at: commitTimestamp };
        tx.write({ kind: 'update', table: 'transactions', row });
      }),
    entries: () =>
      one.query(`
        SELECT txn_id AS txnId, debit_account AS debit, credit_account AS credit, amount
        FROM entries ORDER BY created_at`),
    events: async () => {
      const rows = await one.query<Omit<StoredEvent, 'sequence'> & { sequence: bigint | null }>(`
        SELECT event_id AS eventId, event_type AS eventType, txn_id AS txnId, sequence, payload
        FROM outbox ORDER BY created_at, sequence`);
      return rows.map(({ sequence, ...row }) => ({
        ...row,
        sequence: sequence === null ? null : Number(sequence),
      }));
    },
  };
}

ledgerConformance('ledger on Spanner', openUnderTest, { shared: 4, rounds: 10 });
chargingConformance('charging on Spanner', openUnderTest);
refundsConformance('refunds on Spanner', openUnderTest, { rounds: 10 });
