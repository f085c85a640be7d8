import { loadSql, type Database } from '@triplock/postgres';
import type { Refunds } from '../refunds.ts';
import { findRefund } from './find-refund.ts';
import { listRefunds } from './list-refunds.ts';
import { postRefund } from './post-refund.ts';
import { recordRefundConflict } from './record-key-conflict.ts';
import { settleRefund } from './settle-refund.ts';
import { blamingInput } from './unpostable.ts';

const storeIdSql = loadSql(import.meta.url, 'store-refund-id.sql');

/**
 * Refunds in PostgreSQL, schema `ledger`. Writing needs the role `triplock_ledger`; `find` and
 * `listOf` need only to read `ledger.transactions`. The pool stays the caller's to close.
 */
export function openPostgresRefunds(database: Database): Refunds {
  return {
    post: (posting) => blamingInput(() => database.transaction((tx) => postRefund(tx, posting))),
    settle: (request) =>
      blamingInput(() => database.transaction((tx) => settleRefund(tx, request))),
    storeRefundId: async ({ txnId, version, refundId }) => {
      const parameters = [txnId, version, refundId];
      const [row] = await database.query<{ version: number }>(storeIdSql, parameters);
      return row === undefined ? { outcome: 'stale' } : { outcome: 'stored', version: row.version };
    },
    recordKeyConflict: (posting) => recordRefundConflict(database, posting),
    find: (txnId) => findRefund(database, txnId),
    listOf: (request) => listRefunds(database, request),
  };
}
