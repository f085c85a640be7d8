import type { Payment, TxnId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { Ledger } from '../ledger.ts';
import { listPayments } from './list-payments.ts';
import { paymentOf, type PaymentRow } from './payment-row.ts';
import { postPayments } from './post-payments.ts';
import { recordKeyConflict } from './record-key-conflict.ts';
import { settlePayment } from './settle-payment.ts';

const findSql = loadSql(import.meta.url, 'find.sql');
const isEmptySql = loadSql(import.meta.url, 'is-empty.sql');

/**
 * The ledger in PostgreSQL, schema `ledger`. Writing needs the role `triplock_ledger`; `find`,
 * `list` and `isEmpty` need only to read `ledger.transactions`. Closing it closes the pool.
 */
export function openPostgresLedger(database: Database): Ledger {
  return {
    post: (batch) => postPayments(database, batch),
    settle: (request) => settlePayment(database, request),
    recordKeyConflict: (posting) => recordKeyConflict(database, posting),
    find: (txnId) => find(database, txnId),
    list: (request) => listPayments(database, request),
    isEmpty: async () => (await database.query<{ empty: boolean }>(isEmptySql))[0]!.empty,
    ping: () => database.ping(),
    close: () => database.close(),
  };
}

async function find(database: Database, txnId: TxnId): Promise<Payment | undefined> {
  const [row] = await database.query<PaymentRow>(findSql, [txnId]);
  return row && paymentOf(row);
}
