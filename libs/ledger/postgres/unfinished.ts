import { traceparentOf, type TransactionKind, type TxnId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { DueTransaction, TakeDue, WakeDue } from '../unfinished.ts';
import { UnreadableRowError } from '../rows.ts';
import { findPayment, findRefund } from './transactions.ts';

const takeDueSql = loadSql(import.meta.url, 'take-due.sql');
const wakeDueSql = loadSql(import.meta.url, 'wake-due.sql');
// Takes some of the provider's events out that came long ago; $1 rows at most.
const reapSql = 'SELECT ledger.reap_provider_events($1::integer)';

type DueRow = { txn_id: TxnId; kind: TransactionKind; version: number; traceparent: string | null };

/** Takes due transactions of the ledger in PostgreSQL, as the role `triplock_ledger`. */
export function takeDueFrom(database: Database): TakeDue {
  return async ({ limit, leaseMs, rows: wanted = 'all' }) => {
    const parameters = [limit, leaseMs, wanted === 'settled-here'];
    const rows = await database.query<DueRow>(takeDueSql, parameters);
    const due = await Promise.all(
      rows.map((row) =>
        read(database, row).catch((error: unknown): DueTransaction => {
          if (!isUnreadable(error)) throw error;
          return { kind: 'unreadable', txnId: row.txn_id, error };
        }),
      ),
    );
    return due.filter((each) => each !== undefined);
  };
}

/**
 * Whether it is this very row that cannot be read: it makes no sense here, or the server finds it
 * damaged (SQLSTATE class XX, such as data_corrupted) or wrongly encoded (class 22).
 */
function isUnreadable(error: unknown): boolean {
  if (error instanceof UnreadableRowError) return true;
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && /^(XX|22)[0-9A-Z]{3}$/.test(code);
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
  return payment?.version === row.version ? { kind: 'payment', payment, traceparent } : undefined;
}

/** More than come in with one event, so that they become fewer. */
const reapedMax = 2;

type WakeRow = { waits: boolean; remembered: boolean; woken: TxnId[] };

/**
 * Wakes transactions of the ledger in PostgreSQL, as the role `triplock_ledger`. Each event that is
 * remembered takes old ones out with it, so that nobody else has to.
 */
export function wakeDueIn(database: Database): WakeDue {
  return ({ provider, eventId, type, intentId }, { graceMs }) =>
    database.transaction(async (tx) => {
      const parameters = [provider, eventId, type, intentId, graceMs];
      const [row] = await tx.query<WakeRow>(wakeDueSql, parameters);
      const { waits, remembered, woken } = row!;
      if (!waits) return { outcome: 'nothing-waits' };
      if (!remembered) return { outcome: 'duplicate' };
      await tx.query(reapSql, [reapedMax]);
      return { outcome: 'woken', txnIds: woken };
    });
}
