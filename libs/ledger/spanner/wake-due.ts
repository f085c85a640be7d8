import { deriveId, type TxnId } from '@triplock/payments';
import { commitTimestamp, type SpannerDatabase } from '@triplock/spanner';
import type { WakeDue } from '../unfinished.ts';
import { updateWaiting } from './write-rows.ts';

const hint = 'spanner_emulator.disable_query_null_filtered_index_check=true';

/** A refund is only told of once it is reserved: before, nobody has asked the provider for it. */
const waitingSql = `
  WITH payment AS (
    SELECT txn_id FROM transactions@{FORCE_INDEX=transactions_by_intent, ${hint}}
    WHERE intent_hash = FARM_FINGERPRINT(@intentId)
      AND provider_intent_id = @intentId AND provider = @provider
  ), concerned AS (
    SELECT txn_id FROM payment
    UNION ALL
    SELECT refund.txn_id
    FROM payment
    JOIN transactions@{FORCE_INDEX=refunds_of_a_payment, ${hint}} AS refund
      ON refund.payment_id = payment.txn_id
    WHERE refund.amount IS NOT NULL
  )
  SELECT txn_id, due_at, CURRENT_TIMESTAMP() AS now FROM transactions
  WHERE txn_id IN (SELECT txn_id FROM concerned) AND state = 'pending'`;

const knownSql = 'SELECT id FROM provider_events WHERE id = @id';

/**
 * Wakes transactions of the ledger in Spanner, by `WakeDue`'s contract. After a commit without an
 * answer the event is reported as a duplicate, which it then is.
 */
export function wakeDueInSpanner(database: SpannerDatabase): WakeDue {
  return ({ provider, eventId, type, intentId }, { graceMs }) =>
    database.transaction(async (tx) => {
      type Row = { txn_id: TxnId; due_at: Date; now: Date };
      const waiting = await tx.query<Row>(waitingSql, { intentId, provider });
      if (waiting.length === 0) return { outcome: 'nothing-waits' };
      const id = deriveId('provider-event', provider, eventId);
      if ((await tx.query(knownSql, { id })).length > 0) return { outcome: 'duplicate' };
      const event = { provider, event_id: eventId, event_type: type, intent_id: intentId };
      const row = { id, ...event, seen_at: commitTimestamp };
      tx.write({ kind: 'insert', table: 'provider_events', row });
      for (const { txn_id, due_at, now } of waiting) {
        const soon = new Date(Math.min(+due_at, +now + graceMs));
        tx.write(updateWaiting({ txn_id, due_at: soon }));
      }
      return { outcome: 'woken', txnIds: waiting.map(({ txn_id }) => txn_id) };
    });
}
