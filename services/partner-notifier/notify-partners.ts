import type { Effect, Inbox, ReceivedEvent, ReceiveOutcome } from '@triplock/inbox';
import { loadSql } from '@triplock/postgres';
import { webhookBody } from './webhook-body.ts';

const insertDeliveries = loadSql(import.meta.url, 'sql/insert-deliveries.sql');

/**
 * The story of the notifier: each event becomes one delivery row, in the transaction that remembers
 * the event. The send loop sends the webhook later, so a dead endpoint holds up no event.
 *
 * A crash before the commit leaves nothing, and Pub/Sub redelivers. After the commit, inbox row and
 * delivery are durable: the redelivered event is a duplicate, and any send loop takes the delivery.
 */
export function notifyPartners(
  inbox: Inbox,
  received: readonly ReceivedEvent[],
): Promise<ReceiveOutcome[]> {
  const traces = new Map(received.map(({ event, traceparent }) => [event.event_id, traceparent]));
  const makeDeliveries: Effect = async (tx, events) => {
    await tx.query(insertDeliveries, [
      events.map((event) => event.event_id),
      events.map((event) => event.partner_id),
      events.map((event) => event.txn_id),
      events.map(webhookBody),
      events.map((event) => traces.get(event.event_id) ?? null),
    ]);
  };
  return inbox.receiveMany(received, makeDeliveries);
}
