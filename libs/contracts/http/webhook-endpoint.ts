import { eventTypes, type JsonObject, type JsonValue } from '@triplock/payments';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { toldActionSchema } from './fields.ts';
import { paymentSchema } from './payment.ts';
import { jsonPointer, type FieldProblem } from './problem.ts';

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
const timeOrNull = (description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], ...time, description });

const previousSecretValidUntil = timeOrNull(
  'until when the secret before the newest signs too; null when only one does',
);

/** The body of `PUT /v1/webhook-endpoint`. */
export const webhookEndpointRequestSchema = Type.Object({ url }, { additionalProperties: false });

/** The answer of `GET` and `PUT /v1/webhook-endpoint`. */
export const webhookEndpointSchema = Type.Object(
  {
    object: Type.Literal('webhook_endpoint'),
    url,
    status: Type.Unsafe<'pending' | 'verified' | 'disabled'>({
      type: 'string',
      enum: ['pending', 'verified', 'disabled'],
      description:
        '`verified`: webhooks are sent there. `pending`: your server has yet to answer ' +
        '`endpoint.verification`. `disabled`: see `disabled_at`',
    }),
    previous_secret_valid_until: previousSecretValidUntil,
    updated_at: Type.String({ ...time, description: 'when URL or secret was last set' }),
    disabled_at: timeOrNull(
      'since when nothing is sent, because your server answered `410 Gone`; set the endpoint again ' +
        'to enable it',
    ),
    secret: Type.Optional(
      Type.String({ description: 'shown once, in the 201 that made the endpoint' }),
    ),
  },
  { additionalProperties: false },
);

/** The answer of `POST /v1/webhook-endpoint/secrets`. */
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
    amount: { type: 'integer' },
    currency: { type: 'string' },
  },
};

const { failure: _, provider: __, ...fieldsOfPending } = paymentSchema.properties;

const requiresAction = Type.Object(
  {
    ...fieldsOfPending,
    status: Type.Literal('pending'),
    settled_at: Type.Null(),
    next_action: toldActionSchema,
  },
  { additionalProperties: false, description: 'the payment, as it waits for its customer' },
);

const disputed = Type.Object(
  {
    ...paymentSchema.properties,
    dispute: Type.Object(
      {
        id: Type.String({ description: 'the id of the dispute at the provider' }),
        amount: Type.Integer({ minimum: 0, description: 'minor units that are wanted back' }),
        reason: Type.String({ description: "in the provider's words, such as `fraudulent`" }),
      },
      { additionalProperties: false },
    ),
  },
  { additionalProperties: false, description: 'the payment as it is, and the dispute' },
);

const special: Readonly<Record<string, object>> = {
  'payment.requires_action': requiresAction,
  'payment.disputed': disputed,
};

/**
 * The body of each webhook by its type, as the OpenAPI document shows it. A key conflict and a
 * verification are no events of a payment's sequence, and have no `sequence`.
 */
export const webhookBodySchemas: Readonly<Record<string, object>> = {
  ...Object.fromEntries(
    eventTypes.map((type) => {
      if (type === 'payment.key_conflict') return [type, webhookBody(type, keyConflict)];
      const [kind] = type.split('.') as [string];
      const object = kind.charAt(0).toUpperCase() + kind.slice(1);
      const shown = { $ref: `#/components/schemas/${object}` };
      const data = special[type] ?? shown;
      return [type, webhookBody(type, data, { sequence: { type: 'integer', minimum: 1 } })];
    }),
  ),
  'endpoint.verification': webhookBody('endpoint.verification', {
    type: 'object',
    required: ['token'],
    description: 'answer 2xx with this token as text, or as `token` of a JSON object, within 10 s',
    properties: { token: { type: 'string' } },
  }),
};

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

/** A URL by its form, or every field that is wrong. Whether it may be sent to is judged apart. */
export type ValidatedWebhookEndpoint =
  { outcome: 'valid'; url: URL; text: string } | { outcome: 'invalid'; errors: FieldProblem[] };

const request = Compile(webhookEndpointRequestSchema);
const expected = `expected ${webhookUrlMeaning}`;

// A body of 64 KiB can hold thousands of unknown fields; the first few are enough to work with.
const errorsMax = 50;

/** Checks a body of `PUT /v1/webhook-endpoint`. `undefined` means that there was no body. */
export function validateWebhookEndpoint(json: JsonValue | undefined): ValidatedWebhookEndpoint {
  if (request.Check(json)) {
    const url = URL.parse(json.url);
    if (url !== null) return { outcome: 'valid', url, text: json.url };
    return { outcome: 'invalid', errors: [{ pointer: '#/url', detail: expected }] };
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    return { outcome: 'invalid', errors: [{ pointer: '#', detail: 'expected a JSON object' }] };
  }
  const { url, ...unknown } = json as JsonObject;
  const errors = Object.keys(unknown).map((name) => {
    return { pointer: jsonPointer([name]), detail: 'this field is not known' };
  });
  if (url === undefined) errors.unshift({ pointer: '#/url', detail: `missing: ${expected}` });
  else if (!request.Check({ url })) errors.unshift({ pointer: '#/url', detail: expected });
  return { outcome: 'invalid', errors: errors.slice(0, errorsMax) };
}
