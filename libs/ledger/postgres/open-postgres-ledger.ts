import { loadSql, type Database } from '@triplock/postgres';
import type { Ledger, StoreIntentOutcome, StoreIntentRequest } from '../ledger.ts';
import { findPayment } from './find-payment.ts';
import { listPayments } from './list-payments.ts';
import { postPayments } from './post-payments.ts';
import { recordKeyConflict } from './record-key-conflict.ts';
import { settlePayment } from './settle-payment.ts';

const storeIntentSql = loadSql(import.meta.url, 'store-intent.sql');
const isEmptySql = loadSql(import.meta.url, 'is-empty.sql');

/**
 * The ledger in PostgreSQL, schema `ledger`. Writing needs the role `triplock_ledger`; `find`,
 * `list` and `isEmpty` need only to read `ledger.transactions`. Closing it closes the pool.
 */
export function openPostgresLedger(database: Database): Ledger {
  return {
    post: (batch) => postPayments(database, batch),
    storeIntent: (request) => storeIntent(database, request),
    settle: (request) => settlePayment(database, request),
    recordKeyConflict: (posting) => recordKeyConflict(database, posting),
    find: (txnId) => findPayment(database, txnId),
    list: (request) => listPayments(database, request),
    isEmpty: async () => (await database.query<{ empty: boolean }>(isEmptySql))[0]!.empty,
    ping: () => database.ping(),
    close: () => database.close(),
  };
}

async function storeIntent(
  database: Database,
  { txnId, version, provider, intentId }: StoreIntentRequest,
): Promise<StoreIntentOutcome> {
  const parameters = [txnId, version, provider, intentId];
  const [row] = await database.query<{ version: number }>(storeIntentSql, parameters);
  return row === undefined ? { outcome: 'stale' } : { outcome: 'stored', version: row.version };
}
