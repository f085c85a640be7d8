import { refundEventOf } from '@triplock/contracts';
import { loadSql, type Queryable } from '@triplock/postgres';
import type { SettleOutcome } from '../ledger.ts';
import type { SettleRefundRequest } from '../refunds.ts';
import { refundMovement } from '../settlement.ts';
import { appendSettlement, settleParameters } from './append-settlement.ts';
import { findRefund } from './find-refund.ts';

const settleSql = loadSql(import.meta.url, 'settle-refund.sql');

/** Settles a refund by `Refunds.settle`'s contract, in the transaction that it is given. */
export async function settleRefund(
  tx: Queryable,
  request: SettleRefundRequest,
): Promise<SettleOutcome> {
  const { txnId, traceparent } = request;
  const parameters = settleParameters(request, request.refundId);
  const [settled] = await tx.query<{ sequence: number | null }>(settleSql, parameters);
  if (settled === undefined) return { outcome: 'stale' };
  const refund = await findRefund(tx, txnId);
  if (refund === undefined) throw new Error(`refund ${txnId} was settled and cannot be found`);
  // Without a payment of this partner, the refund's one event is an order of its own.
  const place =
    settled.sequence === null
      ? { orderedBy: txnId, sequence: 1 }
      : { orderedBy: refund.paymentId, sequence: settled.sequence };
  const event = refundEventOf({ refund, ...place });
  await appendSettlement(tx, { event, traceparent, entry: refundMovement(refund) });
  return { outcome: 'settled' };
}
