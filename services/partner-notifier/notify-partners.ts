import type { Effect, Inbox, ReceivedEvent, ReceiveOutcome } from '@triplock/inbox';
import { loadSql } from '@triplock/postgres';
import { webhookBody } from './webhook-body.ts';

const insertDelivery = loadSql(import.meta.url, 'sql/insert-delivery.sql');

/**
 * The story of the notifier: an event becomes one delivery row, in the transaction that remembers
 * the event. Sending the webhook is the send loop's, so a dead endpoint holds up no event.
 */
export function notifyPartners(inbox: Inbox, received: ReceivedEvent): Promise<ReceiveOutcome> {
  return inbox.receive(received, makeDelivery);
}

const makeDelivery: Effect = async (tx, event) => {
  const row = [event.event_id, event.partner_id, event.txn_id, webhookBody(event)];
  await tx.query(insertDelivery, row);
};
