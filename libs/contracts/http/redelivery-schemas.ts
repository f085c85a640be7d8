import { Type } from 'typebox';
import { webhookDeliveryStates } from './webhook-schemas.ts';

/** How many deliveries one request makes due again, but for those of one moment. */
export const redeliveredMax = 1_000;

/** Completes the sentence "expected …". */
export const timeMeaning =
  'a time as RFC 3339 writes it, with `T`, seconds and an offset of at most 14 hours, e.g. ' +
  '2026-01-02T03:04:05Z';

// PostgreSQL takes no offset that RFC 3339 allows beyond 16 hours, and no clock has one beyond 14.
const timePattern =
  '^[1-9]\\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])T([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d' +
  '(\\.\\d{1,9})?(Z|[+-](0\\d|1[0-3]):[0-5]\\d|[+-]14:00)$';

const timeText = Type.String({
  format: 'date-time',
  pattern: timePattern,
  description: timeMeaning,
});

/** The body of `POST /v1/webhook-deliveries/redeliver`. */
export const redeliveryRequestSchema = Type.Object(
  {
    since: timeText,
    until: Type.Optional(timeText),
    status: Type.Optional(
      Type.Unsafe<(typeof webhookDeliveryStates)[number]>({
        type: 'string',
        enum: webhookDeliveryStates,
        description: 'pending, delivered or failed',
      }),
    ),
  },
  { additionalProperties: false },
);

const toldTime = { format: 'date-time' };

/** The answer of `POST /v1/webhook-deliveries/redeliver`. */
export const webhookRedeliverySchema = Type.Object(
  {
    object: Type.Literal('webhook_redelivery'),
    since: Type.String({ ...toldTime, description: 'RFC 3339, UTC, microseconds' }),
    until: Type.String({ ...toldTime, description: 'as asked for, or when it was done' }),
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
      ...toldTime,
      description:
        'where the rest of the window begins: send it as `since`, with a new key; null when there ' +
        'is no rest',
    }),
  },
  { additionalProperties: false },
);
