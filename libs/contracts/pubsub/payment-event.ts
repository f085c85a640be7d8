import type { EventId, EventType, PartnerId, TxnId } from '@triplock/payments';
import type { Event } from '../event.ts';

/** Version of the event's form. */
export const paymentEventSchema = 1;

/**
 * An event as it is published: the JSON body of the Pub/Sub message. `type`, `timestamp`,
 * `sequence` and `data` are, unchanged, the body of the webhook.
 */
export type PaymentEvent = {
  schema: typeof paymentEventSchema;
  event_id: EventId;
  partner_id: PartnerId;
  txn_id: TxnId;
  /** The payment that orders the event; a refund's is the payment it refunds. */
  payment_id: TxnId;
  type: EventType;
  /** When it happened: RFC 3339, UTC, milliseconds. */
  timestamp: string;
  /** 1, 2, 3, … within a payment; absent for `payment.key_conflict`, which settles nothing. */
  sequence?: number;
  data: Readonly<Record<string, unknown>>;
};

/** Attributes of the message, so that it can be routed and deduplicated without parsing. */
export type PaymentEventAttributes = {
  event_id: string;
  event_type: string;
  txn_id: string;
  payment_id: string;
  /** Absent when the event has none. */
  sequence?: string;
  traceparent: string;
};

/** As those know it who only carry it: a payment orders its events, its refunds' included. */
export function eventOf(payload: PaymentEvent): Event<PaymentEvent> {
  const { event_id: id, payment_id: orderingKey, sequence, type } = payload;
  return { id, orderingKey, type, payload, ...(sequence === undefined ? {} : { sequence }) };
}

/** What reading a message gives. */
export type DecodedEvent =
  | {
      outcome: 'event';
      event: PaymentEvent;
      payload: Buffer;
      payloadHash: string;
      traceparent: string;
    }
  | {
      outcome: 'refused';
      reason: 'missing_attributes' | 'unknown_type' | 'invalid_event' | 'forged_id';
      detail: string;
    };
