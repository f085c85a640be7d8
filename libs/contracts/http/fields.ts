import { amountMax, currencies, currenciesAsOf, type PaymentStatus } from '@triplock/payments';
import { Type, type Static } from '../schema.ts';

/*
 * The fields that several objects of the HTTP interface have. Schemas that validate a request are
 * those that the OpenAPI document shows; a field's `description` completes the sentence
 * "expected …".
 */

/** The pattern of a lower-case UUIDv8, as part of one. */
export const idPattern = '[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}';

/** The id of a payment or refund. */
export const txnIdSchema = Type.String({
  pattern: `^${idPattern}$`,
  description: 'a lower-case UUIDv8',
});

/** An amount of money of one transaction. */
export const amountSchema = Type.Integer({
  minimum: 1,
  maximum: Number(amountMax),
  description: `an integer number of minor units (cents, yen, fils) from 1 to ${amountMax}`,
});

/**
 * The pattern of a text on one line. C0, DEL and C1 characters are refused: some stores cannot hold
 * them (PostgreSQL refuses NUL), and they can rewrite a terminal that shows a log. Lengths of JSON
 * schema count Unicode code points.
 */
export const withoutControls = '^[^\\u0000-\\u001f\\u007f-\\u009f]*$';

/** Why a transaction failed. */
export const failure = Type.Object(
  { code: Type.String(), message: Type.String() },
  { additionalProperties: false, description: 'why it failed; `code` is stable' },
);

/** How a moment is shown. */
export const shownTime = { format: 'date-time', description: 'RFC 3339, UTC, milliseconds' };

/** A moment that may not be there, or not yet. */
export const timeOrNull = (description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time', description });

/** How many are on a page of a list when the partner does not say. */
export const pageSizeUsual = 20;

/** How many a page may have. */
export const limitSchema = Type.Integer({
  minimum: 1,
  maximum: 100,
  default: pageSizeUsual,
  description: 'a whole number from 1 to 100',
});

/**
 * Somebody's browser is sent there, by the provider. So it is https and a name of the public DNS,
 * or a program under development on that browser's own machine: nothing runs as a script, nothing
 * is relative to a page of the provider's, and no host is hidden behind a user name.
 */
export const returnUrlSchema = Type.String({
  maxLength: 2_048,
  pattern:
    '^(https://([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]' +
    '|http://(localhost|127\\.0\\.0\\.1))(:[0-9]{1,5})?([/?#][!#-;=?-\\[\\]-~]*)?$',
  description:
    'an absolute https URL of at most 2048 characters, to which a customer comes back who authenticated elsewhere; http for localhost alone',
});

/**
 * What a customer has to do, as the provider's PaymentIntent tells
 * (docs.stripe.com/api/payment_intents/object#payment_intent_object-next_action). Whoever has it
 * can act for the customer: no list, event, log or trace has more of it than `type` and
 * `expires_at`.
 */
export const nextActionSchema = Type.Object(
  {
    type: Type.Optional(Type.String({ description: '`redirect_to_url` or `use_stripe_sdk`' })),
    expires_at: Type.String({ ...shownTime, description: 'when the payment is given up' }),
    redirect_to_url: Type.Optional(
      Type.Object(
        { url: Type.String(), return_url: Type.Optional(Type.String()) },
        {
          additionalProperties: false,
          description: 'where to send the customer, with `return_url`',
        },
      ),
    ),
    client_secret: Type.Optional(
      Type.String({ description: "for the provider's own code in the customer's browser" }),
    ),
  },
  {
    additionalProperties: false,
    description: 'while `pending`: what the customer has to do; gone once it is final',
  },
);

/** What `payment.requires_action` tells of it, which many see. */
export const toldActionSchema = Type.Object(
  { type: nextActionSchema.properties.type, expires_at: nextActionSchema.properties.expires_at },
  {
    additionalProperties: false,
    description: 'what the customer has to do: `GET /v1/payments/{id}` alone has the rest',
  },
);

/** What of it is sealed on the row, and opened for `GET /v1/payments/{id}` alone. */
export type NextAction = Omit<Static<typeof nextActionSchema>, 'expires_at'>;

/** What a new payment may be in: what was withdrawn is refused, and stays readable in old ones. */
export const currency = Type.Unsafe<string>({
  type: 'string',
  enum: currencies,
  description: `a code of ISO 4217 in upper case, of its list of ${currenciesAsOf}`,
});

// Its form says whose it is: an id that a provider gave (Stripe's are at most 255 characters,
// docs.stripe.com/upgrades, "What changes does Stripe consider to be backwards-compatible?"), or a
// URI, such as an account's (RFC 8905). Whether it exists is the provider's to say.
export const paymentMethod = Type.String({
  pattern: '^(pm_[A-Za-z0-9_]{1,252}|[a-z]{2,16}://[A-Za-z0-9/._-]{1,230})$',
  description:
    'how it is paid: an id that the provider gave, `pm_…`, or a URI that names an account',
});

/** When a card's money is taken. */
export const captureMethod = Type.Unsafe<'manual'>({
  type: 'string',
  const: 'manual',
  description:
    '`manual`, with a `payment_method`: the money is only authorised, until it is captured or cancelled',
});

/** Every status that a payment is shown with. */
export const paymentStatuses = [
  'pending',
  'authorized',
  'succeeded',
  'captured',
  'failed',
  'canceled',
] as const satisfies readonly PaymentStatus[];

/** The status of a payment, as it is shown. */
export const paymentStatus = Type.Unsafe<string>({
  type: 'string',
  enum: paymentStatuses,
  description: 'one that is only authorised is `authorized` until it is `captured` or `canceled`',
});

/** What was captured of a payment. */
export const amountCaptured = Type.Integer({
  minimum: 0,
  maximum: Number(amountMax),
  description: 'of `capture_method: manual`: 0 until it is captured',
});

const withoutControlsButLineFeed = '^[^\\u0000-\\u0009\\u000b-\\u001f\\u007f-\\u009f]*$';

/** What a payment is for, in its partner's words. */
export const description = Type.String({
  maxLength: 500,
  pattern: withoutControlsButLineFeed,
  description:
    'a text of at most 500 characters without control characters; line feeds are allowed',
});
