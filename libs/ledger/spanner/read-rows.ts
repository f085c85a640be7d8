import type { TxnId } from '@triplock/payments';
import type { Params } from '@triplock/spanner';
import type { TransactionRow } from './transaction-row.ts';

/** What rows can be read from: a transaction, a moment, or the database as it is now. */
export type Reader = { query<Row>(sql: string, params?: Params): Promise<Row[]> };

/** A transaction's row, and Spanner's clock when it was read. */
export async function readTransaction(
  reader: Reader,
  txnId: TxnId,
): Promise<(TransactionRow & { now: Date }) | undefined> {
  const sql = 'SELECT *, CURRENT_TIMESTAMP() AS now FROM transactions WHERE txn_id = @txnId';
  const [row] = await reader.query<TransactionRow & { now: Date }>(sql, { txnId });
  return row;
}
