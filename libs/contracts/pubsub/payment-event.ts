import {
  deriveEventId,
  deriveKeyConflictId,
  eventIdOf,
  eventTypes,
  followUpKinds,
  kinds,
  traceparentOf,
  type AcceptedPayment,
  type AcceptedFollowUp,
  type EventId,
  type EventType,
  type JsonValue,
  type PartnerId,
  type Payment,
  type FollowUp,
  type SingleEventType,
  type TxnId,
} from '@triplock/payments';
import { hash } from 'node:crypto';
import { txnIdSchema } from '../http/fields.ts';
import { paymentFields, renderPayment } from '../kinds/payment.ts';
import { followUpAsSent, renderFollowUp } from '../kinds/follow-up.ts';
import { parseStrictJson } from '../http/strict-json.ts';
import type { Event } from '../topics.ts';
import { Compile, Type, type Static } from '../schema.ts';

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

/**
 * The event that says how a payment ended. A pure function of the payment, so that every copy is
 * byte-identical.
 *
 * @throws for a payment that is still pending: it has no event, which is a bug of the caller.
 */
export function paymentEventOf(
  payment: Payment,
  type: SingleEventType,
  sequence: number,
): PaymentEvent {
  const data = renderPayment(payment);
  return settled(payment, { type, orderedBy: payment.txnId, sequence, data });
}

/**
 * The event that reports to a partner that its key was used for another payment as well, which was
 * refused. It happened when the loser was accepted, so a redelivery makes the same event again.
 */
export function keyConflictEventOf(refused: AcceptedPayment): PaymentEvent {
  const { kind, txnId, fingerprint, details } = refused;
  const { amount, currency } = details.money;
  const data = { id: txnId, object: kind, fingerprint, amount: Number(amount), currency };
  return keyConflict(refused, { orderedBy: txnId, data });
}

type Order = { orderedBy: TxnId; sequence: number };

/**
 * The same of a refund. Its payment orders it, or the refund itself when the partner has no such
 * payment.
 *
 * @throws for a refund that is still pending: it has no event, which is a bug of the caller.
 */
export function followUpEventOf({
  followUp,
  ...order
}: { followUp: FollowUp } & Order): PaymentEvent {
  const { ends } = kinds[followUp.kind];
  const type = ends[followUp.state === 'failed' ? 'failed' : 'succeeded']!;
  return settled(followUp, { type, ...order, data: renderFollowUp(followUp) });
}

/** Reports to a partner that its refund's key was used for another refund as well. */
export function followUpKeyConflictEventOf(refused: AcceptedFollowUp): PaymentEvent {
  const { txnId: id, paymentId: payment, fingerprint, details } = refused;
  const data = { id, object: refused.kind, payment, fingerprint, ...followUpAsSent(details) };
  return keyConflict(refused, { orderedBy: payment, data });
}

function settled(
  { txnId, partnerId, settledAt }: Payment | FollowUp,
  end: { type: SingleEventType; data: PaymentEvent['data'] } & Order,
): PaymentEvent {
  if (settledAt === null) throw new Error(`transaction ${txnId} is not settled`);
  return {
    schema: paymentEventSchema,
    event_id: deriveEventId(txnId, end.type),
    partner_id: partnerId,
    txn_id: txnId,
    payment_id: end.orderedBy,
    type: end.type,
    timestamp: settledAt.toISOString(),
    sequence: end.sequence,
    data: end.data,
  };
}

function keyConflict(
  { txnId, partnerId, fingerprint, acceptedAt }: AcceptedPayment | AcceptedFollowUp,
  { orderedBy, data }: { orderedBy: TxnId; data: PaymentEvent['data'] },
): PaymentEvent {
  return {
    schema: paymentEventSchema,
    event_id: deriveKeyConflictId(txnId, fingerprint),
    partner_id: partnerId,
    txn_id: txnId,
    payment_id: orderedBy,
    type: 'payment.key_conflict',
    timestamp: acceptedAt.toISOString(),
    data,
  };
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

/** A message as it came from the subscription. */
export type UndecodedEvent = {
  data: Buffer;
  attributes: Readonly<Record<string, string | undefined>>;
};

const time = Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' });

const eventSchema = Type.Object(
  {
    schema: Type.Literal(paymentEventSchema),
    event_id: txnIdSchema,
    partner_id: Type.String({ pattern: '^[!-~]{1,255}$' }),
    txn_id: txnIdSchema,
    payment_id: txnIdSchema,
    type: Type.Unsafe<PaymentEvent['type']>({ type: 'string', enum: eventTypes }),
    timestamp: time,
    sequence: Type.Optional(Type.Integer({ minimum: 1 })),
    data: Type.Object({
      id: txnIdSchema,
      object: Type.String(),
      // A refund or capture that never fitted has none.
      amount: Type.Optional(paymentFields.amount),
      currency: Type.Optional(paymentFields.currency),
      fingerprint: Type.Optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
      dispute: Type.Optional(Type.Object({ id: Type.String() })),
    }),
  },
  { additionalProperties: false },
);
type EventFields = Static<typeof eventSchema>;
const eventCheck = Compile(eventSchema);

/** What follows a payment and failed, or lost its key, may have asked for "all that is left". */
const perhapsWithoutMoney: ReadonlySet<string | undefined> = new Set<EventType | undefined>([
  ...followUpKinds.map((kind) => kinds[kind].ends.failed),
  'payment.key_conflict',
]);

const requiredAttributes = ['event_id', 'event_type', 'txn_id', 'payment_id'] as const;

/**
 * Reads a message of the events topic. Total: whatever came, the answer is an event or the reason
 * why it is none. A copy of a known event with another payload is read as well: only the inbox,
 * which kept the first one's hash, can tell.
 */
export function decodePaymentEvent(received: UndecodedEvent): DecodedEvent {
  const { attributes, data } = received;
  const missing = requiredAttributes.filter((name) => !attributes[name]);
  if (missing.length > 0) return refused('missing_attributes', `without ${missing.join(', ')}`);
  if (!eventTypes.some((type) => type === attributes['event_type'])) {
    return refused('unknown_type', 'the event_type is not known here');
  }
  const json = parseStrictJson(data);
  if (json.outcome === 'refused') {
    return refused('invalid_event', `${json.pointer}: ${json.detail}`);
  }
  if (!eventCheck.Check(json.value)) return refused('invalid_event', firstError(json.value));
  return checkIdentity(json.value, received);
}

function checkIdentity(fields: EventFields, received: UndecodedEvent): DecodedEvent {
  const differing = differingAttribute(fields, received.attributes);
  if (differing) return refused('invalid_event', `the attribute ${differing} is not the payload's`);
  if ((fields.sequence === undefined) !== (fields.type === 'payment.key_conflict')) {
    return refused('invalid_event', 'every event but a key conflict has a sequence');
  }
  if (fields.data.id !== fields.txn_id) {
    return refused('invalid_event', 'data.id is not the txn_id');
  }
  const { amount, currency } = fields.data;
  if (!perhapsWithoutMoney.has(fields.type) && (amount === undefined || currency === undefined)) {
    return refused('invalid_event', `without amount or currency nothing can be ${fields.type}`);
  }
  if (fields.event_id !== eventIdOf(fields.type, fields.data)) {
    return refused('forged_id', 'event_id does not follow from what the event says');
  }
  return {
    outcome: 'event',
    event: fields as unknown as PaymentEvent,
    payload: received.data,
    payloadHash: hash('sha256', received.data, 'hex'),
    traceparent: traceparentOf(received.attributes['traceparent'], fields.txn_id as TxnId),
  };
}

function differingAttribute(
  fields: EventFields,
  attributes: UndecodedEvent['attributes'],
): string | undefined {
  const inPayload: Readonly<Record<string, string | undefined>> = {
    event_id: fields.event_id,
    event_type: fields.type,
    txn_id: fields.txn_id,
    payment_id: fields.payment_id,
    sequence: fields.sequence?.toString(),
  };
  return Object.keys(inPayload).find((name) => inPayload[name] !== attributes[name]);
}

function firstError(json: JsonValue): string {
  const [error] = eventCheck.Errors(json);
  return `${error?.instancePath || '/'} ${error?.message ?? 'is not as expected'}`;
}

function refused(
  reason: Extract<DecodedEvent, { outcome: 'refused' }>['reason'],
  detail: string,
): DecodedEvent {
  return { outcome: 'refused', reason, detail };
}
