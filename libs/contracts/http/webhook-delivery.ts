import { eventTypes, type EventId, type JsonObject, type JsonValue } from '@triplock/payments';
import { Compile, Type, type Static } from '../schema.ts';
import { idPattern, timeOrNull, txnIdSchema } from './fields.ts';
import type { FieldProblem } from './problem.ts';
import { noDayIn, timeSchema } from './times.ts';
import { explainBody } from './validation.ts';

const time = { format: 'date-time' };
/** What can have become of a webhook delivery. */
export const webhookDeliveryStates = [
  'pending',
  'parked',
  'delivered',
  'failed',
  'canceled',
] as const;

const deliveryIdPattern = `^${idPattern}(\\.([2-9]|[1-9]\\d))?$`;
const deliveryId = new RegExp(deliveryIdPattern);

/** A delivery's id: its event's, and from an event's second delivery on which of them it is. */
export const deliveryIdSchema = Type.String({
  pattern: deliveryIdPattern,
  description: 'the id of a delivery of yours',
});

/** Which delivery an id names; `undefined` for a text that is none. */
export function parseDeliveryId(id: string): { eventId: EventId; ordinal: number } | undefined {
  if (!deliveryId.test(id)) return undefined;
  const [eventId, ordinal = '1'] = id.split('.');
  return { eventId: eventId as EventId, ordinal: Number(ordinal) };
}

/** The id of a delivery, as partners see it. */
export function renderDeliveryId(of: { eventId: EventId; ordinal: number }): string {
  return of.ordinal === 1 ? of.eventId : `${of.eventId}.${of.ordinal}`;
}

/** Why the last attempt at a delivery did not succeed. */
const webhookErrors = ['refused', 'unanswered', 'unsendable'] as const;

/** One webhook delivery. */
export const webhookDeliverySchema = Type.Object(
  {
    id: Type.String({
      ...deliveryIdSchema,
      description:
        "the event's id; with `.2`, `.3` and so on where more than one endpoint wanted the event",
    }),
    object: Type.Literal('webhook_delivery'),
    webhook_id: Type.String({
      ...txnIdSchema,
      description:
        "the event's id: the `webhook-id` at every attempt and at each of your endpoints",
    }),
    endpoint: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      format: 'uuid',
      description: 'the webhook endpoint it is for; null: you had none, it waits for one',
    }),
    type: Type.Unsafe<string>({ type: 'string', enum: eventTypes }),
    txn_id: txnIdSchema,
    status: Type.Unsafe<string>({
      type: 'string',
      enum: webhookDeliveryStates,
      description:
        '`parked` waits, untried, for its endpoint to be verified, or for you to set one; `failed` was ' +
        'given up after 24 hours of attempts; `canceled`: its endpoint was deleted before',
    }),
    attempts: Type.Integer({ minimum: 0, description: 'attempts begun' }),
    last_status: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      format: 'int32',
      description: "your server's last answer; null when there was none",
    }),
    last_error: Type.Unsafe<string | null>({
      enum: [...webhookErrors, null],
      description:
        '`refused`: answered with another status than 2xx; `unanswered`: no connection or no answer ' +
        'in time, it may have arrived; `unsendable`: nothing was sent, because the address of the ' +
        'endpoint is not allowed',
    }),
    created_at: Type.String(time),
    delivered_at: timeOrNull('null until it is delivered'),
    next_attempt_at: timeOrNull('null when no further attempt is due'),
  },
  { additionalProperties: false },
);

/** The answer of `GET /v1/webhook-deliveries`. */
export const webhookDeliveryListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(Type.Unsafe<object>({ $ref: 'WebhookDelivery#' })),
    has_more: Type.Boolean(),
  },
  { additionalProperties: false },
);

/** How many deliveries one request makes due again, but for those of one moment. */
export const redeliveredMax = 1_000;

/** The body of `POST /v1/webhook-deliveries/redeliver`. */
export const redeliveryRequestSchema = Type.Object(
  {
    since: timeSchema,
    until: Type.Optional(timeSchema),
    status: Type.Optional(
      Type.Unsafe<(typeof webhookDeliveryStates)[number]>({
        type: 'string',
        enum: webhookDeliveryStates,
        description: 'pending, parked, delivered, failed or canceled',
      }),
    ),
  },
  { additionalProperties: false },
);

/** The answer of `POST /v1/webhook-deliveries/redeliver`. */
export const webhookRedeliverySchema = Type.Object(
  {
    object: Type.Literal('webhook_redelivery'),
    since: Type.String({ ...time, description: 'RFC 3339, UTC, microseconds' }),
    until: Type.String({ ...time, description: 'as asked for, or when it was done' }),
    status: Type.Unsafe<string | null>({
      enum: [...webhookDeliveryStates, null],
      description: 'as asked for; null for any',
    }),
    deliveries: Type.Integer({ minimum: 0, description: 'how many are due again' }),
    has_more: Type.Boolean({
      description: 'whether deliveries of the window were left as they are',
    }),
    next_since: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      ...time,
      description:
        'where the rest of the window begins: send it as `since`, with a new key; null when there ' +
        'is no rest',
    }),
  },
  { additionalProperties: false },
);

/** The body of `POST /v1/webhook-deliveries/redeliver` after validation. */
export type RedeliveryRequest = Static<typeof redeliveryRequestSchema>;

/**
 * What validating a body gives: what is asked and the value its fingerprint is made of, or why not.
 */
export type ValidatedRedeliveryRequest =
  | { outcome: 'valid'; asked: RedeliveryRequest; body: JsonObject }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

const request = Compile(redeliveryRequestSchema);
const explain = explainBody(redeliveryRequestSchema);

/**
 * Checks a body of `POST /v1/webhook-deliveries/redeliver`. `undefined` means that there was no
 * body. Which windows are too long, or none, is the store's to say: without `until` it depends on
 * its clock.
 */
export function validateRedeliveryRequest(json: JsonValue | undefined): ValidatedRedeliveryRequest {
  if (!request.Check(json)) return { outcome: 'invalid', errors: explain(json) };
  const { since, until } = json;
  const errors = noDayIn({ since, until });
  if (errors.length > 0) return { outcome: 'invalid', errors };
  return { outcome: 'valid', asked: json, body: json };
}
