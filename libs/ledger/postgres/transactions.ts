import type { Payment, Refund, TxnId } from '@triplock/payments';
import { loadStatements, type Database, type Queryable } from '@triplock/postgres';
import type {
  ListOutcome,
  ListRequest,
  StoreIntentOutcome,
  StoreIntentRequest,
} from '../ledger.ts';
import { refuseBadTexts, type RowState } from '../outcomes.ts';
import type { RefundListOutcome, RefundListRequest, StoreRefundIdRequest } from '../refunds.ts';
import { paymentOf, refundOf, type PaymentRow, type RefundRow } from '../rows.ts';
import { blamingInput } from './settlement.ts';

const sql = loadStatements(import.meta.url, 'transactions.sql', [
  'findPayment',
  'paymentPosition',
  'listPayments',
  'storeIntent',
  'isEmpty',
  'findRefund',
  'refundPosition',
  'listRefunds',
  'storeRefundId',
  'classify',
]);

/** The payment as the ledger holds it, or `undefined` when the id is not known. */
export async function findPayment(database: Queryable, txnId: TxnId): Promise<Payment | undefined> {
  const [row] = await database.query<PaymentRow>(sql.findPayment, [txnId]);
  return row && paymentOf(row);
}

/** The refund as it is now, also inside a transaction that is about to change it. */
export async function findRefund(database: Queryable, txnId: TxnId): Promise<Refund | undefined> {
  const [row] = await database.query<RefundRow>(sql.findRefund, [txnId]);
  return row && refundOf(row);
}

/** The page after a payment, or the first one. */
export async function listPayments(
  database: Database,
  { partnerId, limit, after, state, reference }: ListRequest,
): Promise<ListOutcome> {
  let position: { created_at: Date } | undefined;
  if (after !== undefined) {
    [position] = await database.query<{ created_at: Date }>(sql.paymentPosition, [
      partnerId,
      after,
    ]);
    if (position === undefined) return { outcome: 'unknown-cursor' };
  }
  // One row more than asked for shows whether there is a next page.
  const rows = await database.query<PaymentRow>(sql.listPayments, [
    partnerId,
    limit + 1,
    position?.created_at,
    after,
    state,
    reference,
  ]);
  const payments = rows.slice(0, limit).map(paymentOf);
  return { outcome: 'page', payments, hasMore: rows.length > limit };
}

/** The page after a refund, or the first one. */
export async function listRefunds(
  database: Database,
  { paymentId, partnerId, limit, after }: RefundListRequest,
): Promise<RefundListOutcome> {
  let position: { created_at: Date } | undefined;
  if (after !== undefined) {
    const asked = [paymentId, partnerId, after];
    [position] = await database.query<{ created_at: Date }>(sql.refundPosition, asked);
    if (position === undefined) return { outcome: 'unknown-cursor' };
  }
  // One row more than asked for shows whether there is a next page.
  const rows = await database.query<RefundRow>(sql.listRefunds, [
    paymentId,
    partnerId,
    limit + 1,
    position?.created_at,
    after,
  ]);
  const refunds = rows.slice(0, limit).map(refundOf);
  return { outcome: 'page', refunds, hasMore: rows.length > limit };
}

/** Whether nothing was ever posted. */
export async function isEmpty(database: Queryable): Promise<boolean> {
  const [row] = await database.query<{ empty: boolean }>(sql.isEmpty);
  return row!.empty;
}

/**
 * What the ledger has under ids that could not be inserted, in a statement of its own after the
 * insert. An id whose writer rolled back gives no row.
 */
export async function readStates(
  database: Queryable,
  ids: readonly TxnId[],
): Promise<(RowState & { txn_id: TxnId })[]> {
  return ids.length === 0 ? [] : database.query(sql.classify, [ids]);
}

/** Stores an intent by `Ledger.storeIntent`'s contract. */
export async function storeIntent(
  database: Queryable,
  { txnId, version, provider, intentId }: StoreIntentRequest,
): Promise<StoreIntentOutcome> {
  refuseBadTexts([intentId]);
  const parameters = [txnId, version, provider, intentId];
  const [row] = await blamingInput(() =>
    database.query<{ version: number }>(sql.storeIntent, parameters),
  );
  return row === undefined ? { outcome: 'stale' } : { outcome: 'stored', version: row.version };
}

/** Stores the provider's id of a refund by `Refunds.storeRefundId`'s contract. */
export async function storeRefundId(
  database: Queryable,
  { txnId, version, refundId }: StoreRefundIdRequest,
): Promise<StoreIntentOutcome> {
  refuseBadTexts([refundId]);
  const parameters = [txnId, version, refundId];
  const [row] = await blamingInput(() =>
    database.query<{ version: number }>(sql.storeRefundId, parameters),
  );
  return row === undefined ? { outcome: 'stale' } : { outcome: 'stored', version: row.version };
}
