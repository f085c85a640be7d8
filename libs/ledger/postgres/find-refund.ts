import type { Refund, TxnId } from '@triplock/payments';
import { loadSql, type Queryable } from '@triplock/postgres';
import { refundOf, type RefundRow } from '../refund-row.ts';

const findSql = loadSql(import.meta.url, 'find-refund.sql');

/** The refund as it stands, also inside a transaction that is about to change it. */
export async function findRefund(database: Queryable, txnId: TxnId): Promise<Refund | undefined> {
  const [row] = await database.query<RefundRow>(findSql, [txnId]);
  return row && refundOf(row);
}
