import { deriveId, type TxnId } from '@triplock/payments';
import { commitTimestamp } from './spanner/values.ts';
import { type SpannerDatabase } from './spanner/open-spanner.ts';
import { type SpannerTransaction } from './spanner/transaction.ts';
import type { WakeDue } from '@triplock/ledger';
import { updateWaiting } from './write-rows.ts';

const paymentSql = `
  SELECT txn_id
  FROM transactions@{FORCE_INDEX=transactions_by_intent, spanner_emulator.disable_query_null_filtered_index_check=true}
  WHERE intent_hash = FARM_FINGERPRINT(@intentId)
    AND provider_intent_id = @intentId AND provider = @provider`;

/**
 * Wakes transactions of the ledger in Spanner, by `WakeDue`'s contract. After a commit without an
 * answer the event is reported as a duplicate, which it then is.
 */
export function wakeDueInSpanner(database: SpannerDatabase): WakeDue {
  return ({ provider, eventId, type, intentId }, { graceMs }) =>
    database.transaction(async (tx) => {
      const waiting = await waitingFor(tx, { intentId, provider });
      if (waiting.length === 0) return { outcome: 'nothing-waits' };
      const id = deriveId('provider-event', provider, eventId);
      const known = { table: 'provider_events', columns: ['id'], keys: [[id]] };
      if ((await tx.read(known)).length > 0) return { outcome: 'duplicate' };
      const event = { provider, event_id: eventId, event_type: type, intent_id: intentId };
      const row = { id, ...event, seen_at: commitTimestamp };
      tx.write({ kind: 'insert', table: 'provider_events', row });
      // By this process's clock. One that is wrong wakes them earlier or later.
      const atTheLatest = Date.now() + graceMs;
      for (const { txn_id, due_at } of waiting) {
        const soon = new Date(Math.min(+due_at, atTheLatest));
        tx.write(updateWaiting({ txn_id, due_at: soon }));
      }
      return { outcome: 'woken', txnIds: waiting.map(({ txn_id }) => txn_id) };
    });
}

type Waiting = { txn_id: TxnId; state: string; due_at: Date };

/**
 * The pending ones of a payment and its refunds. A refund is only told of once it is reserved:
 * before, nobody has asked the provider for it.
 */
async function waitingFor(
  tx: SpannerTransaction,
  intent: { intentId: string; provider: string },
): Promise<Waiting[]> {
  const [payment] = await tx.query<{ txn_id: TxnId }>(paymentSql, intent);
  if (payment === undefined) return [];
  const refunds = await tx.read<{ txn_id: TxnId }>({
    ...{ table: 'transactions', index: 'refunds_of_a_payment', columns: ['txn_id'] },
    keys: { ranges: [{ prefix: [payment.txn_id] }] },
  });
  const rows = await tx.read<Waiting & { amount: bigint | null }>({
    ...{ table: 'transactions', columns: ['txn_id', 'state', 'amount', 'due_at'] },
    keys: [payment, ...refunds].map(({ txn_id }) => [txn_id]),
  });
  return rows.filter(({ state, amount }) => state === 'pending' && amount !== null);
}
