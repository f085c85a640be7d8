import type { PaymentEvent, PaymentEventAttributes } from './payment-event.ts';

/** An event as text, and the attributes that its message carries. */
export type EncodedEvent = {
  payload: string;
  attributes(traceparent: string): PaymentEventAttributes;
};

/** The bytes of an event: stored in the outbox and published as they are, on every attempt. */
export function encodePaymentEvent(event: PaymentEvent): EncodedEvent {
  return {
    payload: JSON.stringify(event),
    attributes: (traceparent) => ({
      event_id: event.event_id,
      event_type: event.type,
      txn_id: event.txn_id,
      payment_id: event.payment_id,
      ...(event.sequence === undefined ? {} : { sequence: String(event.sequence) }),
      traceparent,
    }),
  };
}
