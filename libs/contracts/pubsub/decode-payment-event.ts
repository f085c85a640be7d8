import {
  deriveEventId,
  deriveKeyConflictId,
  eventTypes,
  type EventId,
  type Fingerprint,
  type JsonValue,
  type TxnId,
} from '@triplock/payments';
import { hash } from 'node:crypto';
import { Type, type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { paymentFields, txnIdSchema } from '../http/payment-schemas.ts';
import { parseStrictJson } from '../http/strict-json.ts';
import { traceparentOf } from '../traceparent.ts';
import { paymentEventSchema, type DecodedEvent, type PaymentEvent } from './payment-event.ts';

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
      // A refund that never fitted has none.
      amount: Type.Optional(paymentFields.amount),
      currency: Type.Optional(paymentFields.currency),
      fingerprint: Type.Optional(Type.String({ pattern: '^[0-9a-f]{64}$' })),
    }),
  },
  { additionalProperties: false },
);
type EventFields = Static<typeof eventSchema>;
const eventCheck = Compile(eventSchema);

/** A refund that failed, or that lost its key, may have asked for "all that is left". */
const alwaysOfMoney: ReadonlySet<string> = new Set([
  'payment.succeeded',
  'payment.failed',
  'refund.succeeded',
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
  if (alwaysOfMoney.has(fields.type) && (amount === undefined || currency === undefined)) {
    return refused('invalid_event', `without amount or currency nothing can be ${fields.type}`);
  }
  if (fields.event_id !== expectedId(fields)) {
    return refused('forged_id', 'event_id does not follow from the transaction and the type');
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
  const said: Readonly<Record<string, string | undefined>> = {
    event_id: fields.event_id,
    event_type: fields.type,
    txn_id: fields.txn_id,
    payment_id: fields.payment_id,
    sequence: fields.sequence?.toString(),
  };
  return Object.keys(said).find((name) => said[name] !== attributes[name]);
}

function expectedId({ txn_id, type, data }: EventFields): EventId {
  const txnId = txn_id as TxnId;
  if (type !== 'payment.key_conflict') return deriveEventId(txnId, type);
  return deriveKeyConflictId(txnId, (data.fingerprint ?? '') as Fingerprint);
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
