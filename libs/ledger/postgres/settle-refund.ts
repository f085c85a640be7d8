import { bucketCount, encodePaymentEvent, refundEventOf } from '@triplock/contracts';
import { bucketOf, refundEntry } from '@triplock/payments';
import { loadSql, type Queryable } from '@triplock/postgres';
import type { SettleOutcome } from '../ledger.ts';
import type { SettleRefundRequest } from '../refunds.ts';
import { findRefund } from './find-refund.ts';

const settleSql = loadSql(import.meta.url, 'settle-refund.sql');
const appendSettlementSql = loadSql(import.meta.url, 'append-settlement.sql');

/** Settles a refund by `Refunds.settle`'s contract, in the transaction that it is given. */
export async function settleRefund(
  tx: Queryable,
  request: SettleRefundRequest,
): Promise<SettleOutcome> {
  const { txnId, version, result, settledAt, refundId } = request;
  const failure = result.state === 'failed' ? result.failure : undefined;
  const [settled] = await tx.query<{ sequence: number | null }>(settleSql, [
    txnId,
    version,
    result.state,
    failure?.code ?? null,
    failure?.message ?? null,
    settledAt,
    refundId ?? null,
  ]);
  if (settled === undefined) return { outcome: 'stale' };
  await append(tx, request, settled.sequence);
  return { outcome: 'settled' };
}

async function append(
  tx: Queryable,
  { txnId, traceparent }: SettleRefundRequest,
  place: number | null,
): Promise<void> {
  const refund = await findRefund(tx, txnId);
  if (refund === undefined) throw new Error(`refund ${txnId} was settled and is not there`);
  const { partnerId, money, provider } = refund;
  // Without a payment of this partner, the refund's one event is an order of its own.
  const [orderedBy, sequence] = place === null ? [txnId, 1] : [refund.paymentId, place];
  const event = refundEventOf({ refund, orderedBy, sequence });
  const entry =
    refund.state === 'succeeded' && money !== undefined
      ? refundEntry({ partnerId, money, provider: provider?.name })
      : undefined;
  await tx.query(appendSettlementSql, [
    txnId,
    entry?.debit ?? null,
    entry?.credit ?? null,
    money?.amount ?? null,
    money?.currency ?? null,
    event.event_id,
    event.type,
    partnerId,
    bucketOf(orderedBy, bucketCount),
    sequence,
    encodePaymentEvent(event).payload,
    traceparent,
    orderedBy,
  ]);
}
