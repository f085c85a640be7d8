import type { PaymentEvent } from '@triplock/contracts';
import type { Effect } from '@triplock/inbox';
import { makeDeliveries } from './deliveries.ts';

/**
 * The effect of the notifier: each event becomes one delivery row, in the transaction that
 * remembers the event. The sender sends the webhook later, so a dead endpoint holds up no event.
 *
 * A crash before the commit leaves nothing, and Pub/Sub redelivers. After the commit, inbox row and
 * delivery are durable: the redelivered event is a duplicate, and any sender takes the delivery.
 */
export const notifyPartners: Effect<PaymentEvent> = (tx, events) =>
  makeDeliveries(
    tx,
    events.map(({ payload, traceparent }) => ({
      eventId: payload.event_id,
      partnerId: payload.partner_id,
      txnId: payload.txn_id,
      body: webhookBody(payload),
      traceparent: traceparent ?? null,
    })),
  );

/**
 * The body of an event's webhook: `{ type, timestamp, sequence?, data }`, unchanged from the event.
 * It is made once and stored, so every attempt sends the same bytes.
 */
function webhookBody({ type, timestamp, sequence, data }: PaymentEvent): string {
  return JSON.stringify({ type, timestamp, sequence, data });
}
