import { bucketCount, encodePaymentEvent, type PaymentEvent } from '@triplock/contracts';
import { bucketOf, type Entry, type Settlement, type TxnId } from '@triplock/payments';
import { loadSql, type Queryable } from '@triplock/postgres';

const appendSettlementSql = loadSql(import.meta.url, 'append-settlement.sql');

/** A final state for one row; what `settle.sql` and `settle-refund.sql` have in common. */
type SettledAs = { txnId: TxnId; version: number; result: Settlement; settledAt: Date };

/** The parameters of both, in their order; `providerId` is what the provider calls it. */
export function settleParameters(
  { txnId, version, result, settledAt }: SettledAs,
  providerId: string | undefined,
): unknown[] {
  const failure = result.state === 'failed' ? result.failure : undefined;
  const { code, message } = failure ?? { code: null, message: null };
  return [txnId, version, result.state, code, message, settledAt, providerId ?? null];
}

/** What a settlement writes: its event, and the entry when money moves. */
export type Consequences = {
  event: PaymentEvent;
  traceparent: string;
  entry: Entry | undefined;
};

/** Writes them, in the transaction that settles. */
export async function appendSettlement(
  tx: Queryable,
  { event, traceparent, entry }: Consequences,
): Promise<void> {
  await tx.query(appendSettlementSql, [
    event.txn_id,
    entry?.debit ?? null,
    entry?.credit ?? null,
    entry?.money.amount ?? null,
    entry?.money.currency ?? null,
    event.event_id,
    event.type,
    event.partner_id,
    bucketOf(event.payment_id, bucketCount),
    event.sequence,
    encodePaymentEvent(event).payload,
    traceparent,
    event.payment_id,
  ]);
}
