import {
  eventsOf,
  eventTypes,
  transactionKinds,
  type EventType,
  type JsonObject,
  type JsonValue,
  type TransactionKind,
} from '@triplock/payments';
import { schemaNameOf, transactionContracts } from '../kinds.ts';
import { Compile, Type, type Static, type TObject } from '../schema.ts';
import { shownTime, timeOrNull, withoutControls } from './fields.ts';
import type { FieldProblem } from './problem.ts';
import { explainBody, fieldProblem } from './validation.ts';

/** Longer than any URL that receives webhooks, and short enough to store and show. */
const urlLengthMax = 2_000;

/** Completes the sentence "expected …". */
const webhookUrlMeaning = `an absolute URL of at most ${urlLengthMax} characters without white space`;

const url = Type.String({
  minLength: 1,
  maxLength: urlLengthMax,
  // Parsers of URLs drop white space and line ends; what is shown must be what is sent to.
  pattern: '^[^\\u0000-\\u0020\\u007f-\\u00a0]*$',
  description: webhookUrlMeaning,
});

const time = { format: 'date-time' };
const previousSecretValidUntil = timeOrNull(
  'until when the secret before the newest signs too; null when only one does',
);

/** The body of `PUT /v1/webhook-endpoint`. */
export const webhookEndpointRequestSchema = Type.Object({ url }, { additionalProperties: false });

/** An endpoint's `enabled_events` when it wants all. */
export const everyEvent = '*';

const eventsMeaning = '`["*"]` for every type, those of later versions too, or a list of types';

const enabledEvents = Type.Array(
  Type.Unsafe<EventType | typeof everyEvent>({
    type: 'string',
    enum: [...eventTypes, everyEvent],
  }),
  {
    minItems: 1,
    maxItems: eventTypes.length,
    uniqueItems: true,
    description: eventsMeaning,
  },
);

const noteMeaning = 'a text of at most 200 characters without control characters';
const note = { maxLength: 200, pattern: withoutControls };

/** The body of `POST /v1/webhook-endpoints`. */
export const newWebhookEndpointSchema = Type.Object(
  {
    url,
    enabled_events: Type.Optional(enabledEvents),
    description: Type.Optional(Type.String({ ...note, description: noteMeaning })),
  },
  { additionalProperties: false },
);

/** The body of `PATCH /v1/webhook-endpoints/{id}`. */
export const webhookEndpointChangesSchema = Type.Object(
  {
    url: Type.Optional(url),
    enabled_events: Type.Optional(enabledEvents),
    description: Type.Optional(
      Type.Unsafe<string | null>({
        type: ['string', 'null'],
        ...note,
        description: `${noteMeaning}, or null for none`,
      }),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
);

const disabledReason = Type.Unsafe<'gone' | 'failing' | null>({
  enum: ['gone', 'failing', null],
  description:
    '`gone`: your server answered `410 Gone`; `failing`: it took nothing for days, since ' +
    '`failing_since`; null: the endpoint is not disabled',
});

/** A webhook endpoint, as every route shows it. */
export const webhookEndpointSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    object: Type.Literal('webhook_endpoint'),
    url,
    description: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
    enabled_events: enabledEvents,
    status: Type.Unsafe<'pending' | 'verified' | 'disabled'>({
      type: 'string',
      enum: ['pending', 'verified', 'disabled'],
      description:
        '`verified`: webhooks are sent there. `pending`: your server has yet to answer ' +
        '`endpoint.verification`. `disabled`: see `disabled_at`',
    }),
    previous_secret_valid_until: previousSecretValidUntil,
    created_at: Type.String(shownTime),
    updated_at: Type.String({ ...time, description: 'when URL or secret was last set' }),
    failing_since: timeOrNull(
      'when the first attempt failed since one was taken, or since you set the endpoint; null while ' +
        'your server takes what is sent. What it missed may be a day older, for which each webhook is ' +
        'tried',
    ),
    disabled_at: timeOrNull(
      'since when nothing is sent, for the `disabled_reason`; set the endpoint again to enable it',
    ),
    disabled_reason: disabledReason,
    secret: Type.Optional(
      Type.String({ description: 'shown once, in the 201 that made the endpoint' }),
    ),
  },
  { additionalProperties: false },
);

/** The answer of `GET /v1/webhook-endpoints`. */
export const webhookEndpointListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(Type.Unsafe<object>({ $ref: 'WebhookEndpoint#' })),
    has_more: Type.Boolean({ description: 'false: all of them are on the one page' }),
  },
  { additionalProperties: false },
);

/** The answer of `POST /v1/webhook-endpoints/{id}/test`. */
export const webhookTestSchema = Type.Object(
  {
    object: Type.Literal('webhook_test'),
    endpoint: Type.String({ format: 'uuid' }),
    webhook_id: Type.String({ format: 'uuid', description: 'the `webhook-id` that was sent' }),
    outcome: Type.Unsafe<'delivered' | 'refused' | 'unanswered' | 'unsendable'>({
      type: 'string',
      enum: ['delivered', 'refused', 'unanswered', 'unsendable'],
      description:
        '`delivered`: answered with a 2xx; `refused`: with another status; `unanswered`: no ' +
        'connection or no answer within 10 s; `unsendable`: the address is not allowed',
    }),
    status: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      format: 'int32',
      description: "your server's answer; null when there was none",
    }),
    took_ms: Type.Integer({ minimum: 0 }),
  },
  { additionalProperties: false },
);

/** The answer of `POST …/secrets`. */
export const webhookSecretSchema = Type.Object(
  {
    object: Type.Literal('webhook_secret'),
    secret: Type.String({ description: '`whsec_` and base64, shown this once' }),
    previous_secret_valid_until: Type.String({
      ...time,
      description: 'until when the secret before it signs too',
    }),
  },
  { additionalProperties: false },
);

/** The headers of every webhook, by the specification of Standard Webhooks. */
export const webhookHeaders = [
  ['webhook-id', "the event's id, the same at every attempt"],
  ['webhook-timestamp', 'when this attempt was made, in seconds since 1970'],
  ['webhook-signature', '`v1,` and base64 of HMAC-SHA-256; one for each secret that signs'],
] as const;

const keyConflict = {
  type: 'object',
  required: ['id', 'object', 'fingerprint'],
  description: 'the payment or refund that was refused, because its key was used for another',
  properties: {
    id: { type: 'string', format: 'uuid' },
    object: { type: 'string' },
    fingerprint: { type: 'string' },
    amount: Type.Integer(),
    currency: { type: 'string' },
  },
};

/**
 * The body of each webhook by its type, as the OpenAPI document shows it. A key conflict and what
 * is about an endpoint are no events of a payment's sequence, and have no `sequence`.
 */
export const webhookBodySchemas: Readonly<Record<string, object>> = {
  ...Object.fromEntries(transactionKinds.flatMap(bodiesOf)),
  'endpoint.disabled': webhookBody('endpoint.disabled', {
    type: 'object',
    required: ['object', 'id', 'disabled_at', 'disabled_reason', 'failing_since'],
    description: 'another endpoint of yours, to which nothing is sent until you set it again',
    properties: {
      object: { type: 'string', const: 'webhook_endpoint' },
      id: { type: 'string', format: 'uuid' },
      disabled_at: { type: 'string', ...time },
      disabled_reason: { type: 'string', enum: ['gone', 'failing'] },
      failing_since: { type: ['string', 'null'], ...time },
    },
  }),
  'endpoint.test': webhookBody('endpoint.test', {
    type: 'object',
    required: ['object', 'id'],
    description: 'the endpoint that you asked to test',
    properties: {
      object: { type: 'string', const: 'webhook_endpoint' },
      id: { type: 'string', format: 'uuid' },
    },
  }),
  'endpoint.verification': webhookBody('endpoint.verification', {
    type: 'object',
    required: ['token'],
    description: 'answer 2xx with this token as text, or as `token` of a JSON object, within 10 s',
    properties: { token: { type: 'string' } },
  }),
};

function bodiesOf(kind: TransactionKind): [type: string, body: object][] {
  const { told } = transactionContracts[kind];
  const shown = { $ref: `#/components/schemas/${schemaNameOf(kind)}` };
  const sequence = Type.Integer({ minimum: 1 });
  return eventsOf(kind).map((type) => {
    if (type === 'payment.key_conflict') return [type, webhookBody(type, keyConflict)];
    return [type, webhookBody(type, told?.[type] ?? shown, { sequence })];
  });
}

function webhookBody(type: string, data: object, more: Record<string, object> = {}): object {
  return {
    type: 'object',
    required: ['type', 'timestamp', ...Object.keys(more), 'data'],
    properties: {
      type: { type: 'string', const: type },
      timestamp: { type: 'string', ...time, description: 'when it happened' },
      ...more,
      data,
    },
  };
}

/**
 * What validating a body gives: what is asked, the URL by its form, and the value a fingerprint is
 * made of; or every field that is wrong. Whether the URL may be sent to is judged apart.
 */
export type ValidatedEndpoint<Asked> =
  | { outcome: 'valid'; asked: Asked; url: URL | undefined; body: JsonObject }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

/** `undefined` means that there was no body. */
type Validator<Schema extends TObject> = (
  json: JsonValue | undefined,
) => ValidatedEndpoint<Static<Schema>>;

type Fields = { url?: string; enabled_events?: string[] };

/** A check of bodies that may have an endpoint's fields. */
function validatorOf<Schema extends TObject>(schema: Schema): Validator<Schema> {
  const check = Compile(schema);
  const explain = explainBody(schema);
  return (json) => {
    if (!check.Check(json)) {
      const errors = explain(json);
      if (errors.length > 0) return { outcome: 'invalid', errors };
      const detail = `expected at least one of ${Object.keys(schema.properties).join(', ')}`;
      return { outcome: 'invalid', errors: [{ pointer: '#', detail }] };
    }
    const fields = json as Fields;
    const errors: FieldProblem[] = [];
    const url = fields.url === undefined ? undefined : (URL.parse(fields.url) ?? undefined);
    if (fields.url !== undefined && url === undefined) {
      errors.push(fieldProblem(['url'], `expected ${webhookUrlMeaning}`));
    }
    const events = fields.enabled_events ?? [];
    if (events.length > 1 && events.includes(everyEvent)) {
      errors.push(fieldProblem(['enabled_events'], `expected ${eventsMeaning}`));
    }
    if (errors.length > 0) return { outcome: 'invalid', errors };
    return { outcome: 'valid', asked: json, url, body: json as JsonObject };
  };
}

/** Checks a body of `PUT /v1/webhook-endpoint`. */
export const validateWebhookEndpoint = validatorOf(webhookEndpointRequestSchema);

/** Checks a body of `POST /v1/webhook-endpoints`. */
export const validateNewEndpoint = validatorOf(newWebhookEndpointSchema);

/** Checks a body of `PATCH /v1/webhook-endpoints/{id}`. */
export const validateEndpointChanges = validatorOf(webhookEndpointChangesSchema);
