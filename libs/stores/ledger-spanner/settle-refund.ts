import { refundEventOf } from '@triplock/contracts';
import type { TxnId } from '@triplock/payments';
import type { SpannerTransaction } from './spanner/transaction.ts';
import type { SettleOutcome } from '@triplock/ledger';
import type { SettleRefundRequest } from '@triplock/ledger';
import { refundMovement } from '@triplock/ledger';
import { readTransaction } from './read-rows.ts';
import { isPendingAt, ownDoing } from './settle-payment.ts';
import { paymentOfRefund, refundFrom, type TransactionRow } from './transaction-row.ts';
import { insertEntry, insertEvent, updateTransaction } from './write-rows.ts';

/** A refund and its payment as they will stand, before anything of it is written. */
export type RefundRows = { refund: TransactionRow; payment: TransactionRow | undefined };

/** Settles a reserved refund by `Refunds.settle`'s contract. */
export async function settleRefund(
  tx: SpannerTransaction,
  request: SettleRefundRequest,
): Promise<SettleOutcome> {
  const row = await readTransaction(tx, request.txnId);
  if (row?.kind !== 'refund') return { outcome: 'stale' };
  if (!isPendingAt(row, request.version)) return ownDoing(tx, row, request);
  const payment = await readTransaction(tx, row.payment_id as TxnId);
  const settled = settledRows({ refund: row, payment: paymentOfRefund(row, payment) }, request);
  tx.write(updateTransaction(refundColumns(settled.refund)));
  tellOfRefund(tx, settled, request.traceparent);
  return { outcome: 'settled' };
}

/** What a settlement makes of both rows: what a failed refund had reserved is given back. */
export function settledRows(
  { refund, payment }: RefundRows,
  { result, settledAt, refundId }: Pick<SettleRefundRequest, 'result' | 'settledAt' | 'refundId'>,
): RefundRows {
  const amount = refund.amount ?? 0n;
  const isGiven = result.state === 'succeeded';
  return {
    refund: {
      ...refund,
      ...{ state: result.state, settled_at: settledAt, due_at: null },
      failure_code: result.state === 'failed' ? result.failure.code : null,
      failure_message: result.state === 'failed' ? result.failure.message : null,
      provider_refund_id: refundId ?? refund.provider_refund_id,
      version: refund.version + 1n,
    },
    payment: payment && {
      ...payment,
      amount_refunded: payment.amount_refunded + (isGiven ? amount : 0n),
      refund_reserved: payment.refund_reserved - (isGiven ? 0n : amount),
      events: payment.events + 1n,
      version: payment.version + 1n,
    },
  };
}

/** Writes the payment's side, the entry and the event of a refund that is final now. */
export function tellOfRefund(
  tx: SpannerTransaction,
  { refund: row, payment }: RefundRows,
  traceparent: string,
): void {
  const refund = refundFrom(row, payment);
  // Without a payment of this partner, the refund's one event is an order of its own.
  const place =
    payment === undefined
      ? { orderedBy: refund.txnId, sequence: 1 }
      : { orderedBy: refund.paymentId, sequence: Number(payment.events) };
  if (payment !== undefined) tx.write(updateTransaction(paymentColumns(payment)));
  const entry = refundMovement(refund);
  if (entry !== undefined) tx.write(insertEntry(refund.txnId, entry));
  tx.write(insertEvent(refundEventOf({ refund, ...place }), traceparent));
}

/** Everything of a refund's row that changes. */
export function refundColumns(row: TransactionRow) {
  const { txn_id, version, state, amount, currency, due_at, provider_refund_id } = row;
  const { settled_at, failure_code, failure_message } = row;
  const changing = { state, amount, currency, due_at, provider_refund_id };
  return { txn_id, version, ...changing, settled_at, failure_code, failure_message };
}

/** Everything of a payment's row that its refunds change. */
export function paymentColumns(row: TransactionRow) {
  const { txn_id, version, events, refund_reserved, amount_refunded } = row;
  return { txn_id, version, events, refund_reserved, amount_refunded };
}
