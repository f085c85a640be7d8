import { encodePaymentEvent, paymentEventOf } from '@triplock/contracts';
import type { EventId, Payment } from '@triplock/payments';

/** The part of an outbox row that tells what happened; the same for the same input. */
export type EventRow = {
  eventId: EventId;
  eventType: string;
  payload: string;
  traceparent: string;
};

/** The event of a payment that is final, as its given place in the payment's order. */
export function settlementEvent(settled: {
  payment: Payment;
  sequence: number;
  traceparent: string;
}): EventRow {
  const { payment, sequence, traceparent } = settled;
  const type = payment.state === 'failed' ? 'payment.failed' : 'payment.succeeded';
  const event = paymentEventOf(payment, type, sequence);
  const { payload } = encodePaymentEvent(event);
  return { eventId: event.event_id, eventType: type, payload, traceparent };
}
