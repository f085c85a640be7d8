import type { Payment, TxnId } from '@triplock/payments';
import { loadSql, type Queryable } from '@triplock/postgres';
import { paymentOf, type PaymentRow } from '../payment-row.ts';

const findSql = loadSql(import.meta.url, 'find.sql');

/** The payment as the ledger holds it, or `undefined` when the id is not known. */
export async function findPayment(database: Queryable, txnId: TxnId): Promise<Payment | undefined> {
  const [row] = await database.query<PaymentRow>(findSql, [txnId]);
  return row && paymentOf(row);
}
