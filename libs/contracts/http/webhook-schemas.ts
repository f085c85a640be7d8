import { eventTypes } from '@triplock/payments';
import { Type } from 'typebox';
import { txnIdSchema } from './payment-schemas.ts';

/** Longer than any URL that receives webhooks, and short enough to store and show. */
const urlLengthMax = 2_000;

/** Completes the sentence "expected …". */
export const webhookUrlMeaning = `an absolute URL of at most ${urlLengthMax} characters without white space`;

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

/** What can have become of a webhook delivery. */
export const webhookDeliveryStates = ['pending', 'delivered', 'failed'] as const;

/** Why the last attempt at a delivery did not succeed. */
const webhookErrors = ['refused', 'unanswered', 'unsendable'] as const;

/** One webhook delivery. */
export const webhookDeliverySchema = Type.Object(
  {
    id: Type.String({
      ...txnIdSchema,
      description: "the event's id, `webhook-id` at every attempt",
    }),
    object: Type.Literal('webhook_delivery'),
    type: Type.Unsafe<string>({ type: 'string', enum: eventTypes }),
    txn_id: txnIdSchema,
    status: Type.Unsafe<string>({
      type: 'string',
      enum: webhookDeliveryStates,
      description: '`failed` was given up after 24 hours of attempts',
    }),
    attempts: Type.Integer({ minimum: 0, description: 'attempts begun' }),
    last_status: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: "your server's last answer; null when there was none",
    }),
    last_error: Type.Unsafe<string | null>({
      enum: [...webhookErrors, null],
      description:
        '`refused`: answered with another status than 2xx; `unanswered`: no connection or no answer ' +
        'in time, it may have arrived; `unsendable`: nothing was sent, because the endpoint is ' +
        'missing or its address is not allowed',
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
