import { amountMax } from '@triplock/payments';
import { Type } from 'typebox';
import { currencies } from './currencies.ts';
import { problemCodes } from './problem.ts';

/**
 * The JSON schemas of the HTTP interface. Those that validate a request are the ones that the
 * OpenAPI document shows. A field's `description` completes the sentence "expected …".
 */

/** Pairs of metadata. A limit on everything keeps the 202 body and the Kafka record small. */
const metadataPairsMax = 20;

/**
 * The pattern of a text on one line. C0, DEL and C1 characters are refused: some stores cannot hold
 * them (PostgreSQL refuses NUL), and they can rewrite a terminal that shows a log. Lengths of JSON
 * schema count Unicode code points.
 */
export const withoutControls = '^[^\\u0000-\\u001f\\u007f-\\u009f]*$';
const withoutControlsButLineFeed = '^[^\\u0000-\\u0009\\u000b-\\u001f\\u007f-\\u009f]*$';

/** An amount of money of one transaction. */
export const amountSchema = Type.Integer({
  minimum: 1,
  maximum: Number(amountMax),
  description: `an integer number of minor units (cents, yen, fils) from 1 to ${amountMax}`,
});

const currency = Type.Unsafe<string>({
  type: 'string',
  enum: currencies,
  description: 'an ISO 4217 currency code in upper case',
});

// Stripe's ids are at most 255 characters (docs.stripe.com/upgrades, "What changes does Stripe
// consider to be backwards-compatible?"). Whether the method exists is the provider's to say.
const paymentMethod = Type.String({
  pattern: '^pm_[A-Za-z0-9_]{1,252}$',
  description: 'the id of a payment method at the provider, `pm_…`',
});

const reference = Type.String({
  maxLength: 64,
  pattern: withoutControls,
  description: 'a text of at most 64 characters without control characters',
});

const description = Type.String({
  maxLength: 500,
  pattern: withoutControlsButLineFeed,
  description:
    'a text of at most 500 characters without control characters; line feeds are allowed',
});

const metadataName = Type.String({
  minLength: 1,
  maxLength: 40,
  pattern: withoutControls,
  description: 'a name of 1 to 40 characters without control characters',
});

const metadataValue = Type.String({
  maxLength: 500,
  pattern: withoutControls,
  description: 'a text of at most 500 characters without control characters',
});

const metadata = Type.Unsafe<Record<string, string>>({
  type: 'object',
  maxProperties: metadataPairsMax,
  propertyNames: metadataName,
  additionalProperties: metadataValue,
  description: `an object of at most ${metadataPairsMax} pairs of text`,
});

/** The schemas of one pair of metadata. */
export const metadataPair = { name: metadataName, value: metadataValue };

const optional = {
  payment_method: Type.Optional(paymentMethod),
  reference: Type.Optional(reference),
  description: Type.Optional(description),
  metadata: Type.Optional(metadata),
};

/**
 * What a partner said about a payment, in records, events and answers. Any code with the form of a
 * currency is one: the gateway checked it, and a reader with an older list must not refuse it.
 */
export const paymentFields = {
  amount: amountSchema,
  currency: Type.String({ pattern: '^[A-Z]{3}$', description: 'an ISO 4217 currency code' }),
  ...optional,
};

/** The body of `POST /v1/payments`. */
export const paymentRequestSchema = Type.Object(
  { amount: amountSchema, currency, ...optional },
  { additionalProperties: false },
);

/** The id of a payment or refund. */
export const txnIdSchema = Type.String({
  pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$',
  description: 'a lower-case UUIDv8',
});

/** The 202 body of `POST /v1/payments`. */
export const acceptedPaymentSchema = Type.Object(
  {
    id: txnIdSchema,
    object: Type.Literal('payment'),
    status: Type.Literal('pending'),
    ...paymentFields,
  },
  { additionalProperties: false },
);

/** Why a transaction failed. */
export const failure = Type.Object(
  { code: Type.String(), message: Type.String() },
  { additionalProperties: false, description: 'why it failed; `code` is stable' },
);

/** How a moment is shown. */
export const shownTime = { format: 'date-time', description: 'RFC 3339, UTC, milliseconds' };

/** A payment as `GET /v1/payments/{id}` shows it. */
export const paymentSchema = Type.Object(
  {
    id: txnIdSchema,
    object: Type.Literal('payment'),
    status: Type.Unsafe<string>({ type: 'string', enum: ['pending', 'succeeded', 'failed'] }),
    ...paymentFields,
    amount_refunded: Type.Integer({ minimum: 0, maximum: Number(amountMax) }),
    created_at: Type.String(shownTime),
    settled_at: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      ...shownTime,
      description: 'when it became final; null while pending',
    }),
    failure: Type.Optional(failure),
    provider: Type.Optional(
      Type.Object(
        { name: Type.String(), charge_id: Type.String() },
        {
          additionalProperties: false,
          description: 'who charged, and its id of the charge; cards only',
        },
      ),
    ),
  },
  { additionalProperties: false },
);

/** The body of every error, `application/problem+json` (RFC 9457). */
export const problemSchema = Type.Object(
  {
    type: Type.String({ description: 'a URI that names the kind of problem' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String({ description: 'says what to do' }),
    code: Type.Unsafe<string>({ type: 'string', enum: Object.keys(problemCodes) }),
    errors: Type.Optional(
      Type.Array(
        Type.Object(
          { pointer: Type.String({ description: 'e.g. `#/amount`' }), detail: Type.String() },
          { additionalProperties: false },
        ),
      ),
    ),
  },
  { additionalProperties: false },
);
