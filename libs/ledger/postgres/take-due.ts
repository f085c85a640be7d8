import { traceparentOf } from '@triplock/contracts';
import type { TransactionKind, TxnId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { DueTransaction, TakeDue } from '../unfinished.ts';
import { findPayment } from './find-payment.ts';
import { findRefund } from './find-refund.ts';

const takeDueSql = loadSql(import.meta.url, 'take-due.sql');

type DueRow = { txn_id: TxnId; kind: TransactionKind; version: number; traceparent: string | null };

/** Takes due transactions of the ledger in PostgreSQL, as the role `triplock_ledger`. */
export function takeDueFrom(database: Database): TakeDue {
  return async ({ limit, leaseMs }) => {
    const rows = await database.query<DueRow>(takeDueSql, [limit, leaseMs]);
    const due = await Promise.all(rows.map((row) => read(database, row)));
    return due.filter((each) => each !== undefined);
  };
}

/** As it was taken: a worker that changed it since has it now, or has finished it. */
async function read(database: Database, row: DueRow): Promise<DueTransaction | undefined> {
  const { txn_id: txnId, kind } = row;
  const traceparent = traceparentOf(row.traceparent ?? undefined, txnId);
  if (kind === 'refund') {
    const refund = await findRefund(database, txnId);
    return refund?.version === row.version ? { kind, refund, traceparent } : undefined;
  }
  const payment = await findPayment(database, txnId);
  return payment?.version === row.version ? { kind, payment, traceparent } : undefined;
}
