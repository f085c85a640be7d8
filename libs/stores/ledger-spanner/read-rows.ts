import type { TxnId } from '@triplock/payments';
import type { Lookup } from './spanner/lookup.ts';
import { transactionColumns } from '@triplock/ledger';
import type { TransactionRow } from './transaction-row.ts';

/** What rows can be read from: a transaction, a moment, or the database as it is now. */
export type Reader = { read<Row>(lookup: Lookup): Promise<Row[]> };

/** A transaction's row. */
export async function readTransaction(
  reader: Reader,
  txnId: TxnId,
): Promise<TransactionRow | undefined> {
  const [row] = await reader.read<TransactionRow>({
    table: 'transactions',
    columns: transactionColumns,
    keys: [[txnId]],
  });
  return row;
}
