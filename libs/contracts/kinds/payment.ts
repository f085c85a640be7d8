import {
  amountMax,
  type AcceptedPayment,
  type Currency,
  type JsonObject,
  type JsonValue,
  type Payment,
  type PaymentStatus,
  type PaymentDetails,
} from '@triplock/payments';
import {
  amountCaptured,
  amountSchema,
  captureMethod,
  currency,
  description,
  failure,
  nextActionSchema,
  toldActionSchema,
  paymentMethod,
  paymentStatus,
  returnUrlSchema,
  shownTime,
  txnIdSchema,
  withoutControls,
  type NextAction,
} from '../http/fields.ts';
import type { FieldProblem } from '../http/problem.ts';
import {
  compileEach,
  explainBody,
  fieldProblem,
  isJsonObject,
  wanted,
} from '../http/validation.ts';
import { Compile, Type, type Static } from '../schema.ts';
import type { KindContract, ValidatedRequest } from './kind.ts';

/** Pairs of metadata. A limit on everything keeps the 202 body and the Kafka record small. */
const metadataPairsMax = 20;

const reference = Type.String({
  maxLength: 64,
  pattern: withoutControls,
  description: 'a text of at most 64 characters without control characters',
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
const metadataPair = { name: metadataName, value: metadataValue };

const optional = {
  payment_method: Type.Optional(paymentMethod),
  return_url: Type.Optional(returnUrlSchema),
  capture_method: Type.Optional(captureMethod),
  reference: Type.Optional(reference),
  description: Type.Optional(description),
  metadata: Type.Optional(metadata),
};

/**
 * What a partner asked for, in records, events and answers. Any code with the form of a currency is
 * one: the gateway checked it, and a reader with an older list must not refuse it.
 */
export const paymentFields = {
  amount: amountSchema,
  currency: Type.String({ pattern: '^[A-Z]{3}$', description: 'an ISO 4217 currency code' }),
  ...optional,
};

const requestExamples = [
  { amount: 1_250, currency: 'EUR', reference: 'week-47' },
  { amount: 1_251, currency: 'EUR' },
] as const;

/** The body of `POST /v1/payments`. */
export const paymentRequestSchema = Type.Object(
  { amount: amountSchema, currency, ...optional },
  { additionalProperties: false, examples: requestExamples },
);

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

/** A payment as `GET /v1/payments/{id}` shows it. */
export const paymentSchema = Type.Object(
  {
    id: txnIdSchema,
    object: Type.Literal('payment'),
    status: paymentStatus,
    ...paymentFields,
    amount_captured: Type.Optional(amountCaptured),
    amount_refunded: Type.Integer({ minimum: 0, maximum: Number(amountMax) }),
    created_at: Type.String(shownTime),
    settled_at: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      ...shownTime,
      description: 'when it became final; null while pending',
    }),
    next_action: Type.Optional(nextActionSchema),
    failure: Type.Optional(failure),
    provider: Type.Optional(
      Type.Object(
        { name: Type.String(), charge_id: Type.String() },
        {
          additionalProperties: false,
          description: 'who charged, and its id of the charge; none of a book transfer',
        },
      ),
    ),
  },
  { additionalProperties: false },
);

const { failure: _, provider: __, ...fieldsOfPending } = paymentSchema.properties;

const requiresAction = Type.Object(
  {
    ...fieldsOfPending,
    status: Type.Literal('pending'),
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

/** The body of `POST /v1/payments` after validation. */
export type PaymentRequest = Static<typeof paymentRequestSchema>;

const request = Compile(paymentRequestSchema);
const pair = compileEach(metadataPair);
const explain = explainBody(paymentRequestSchema, explainPairs);

/**
 * Checks a body of `POST /v1/payments` against {@link paymentRequestSchema} and names every field
 * that is wrong, unknown or missing (the first 50). `undefined` means that there was no body.
 */
export function validatePaymentRequest(
  json: JsonValue | undefined,
): ValidatedRequest<PaymentDetails> {
  if (request.Check(json)) {
    if (json.capture_method === undefined || json.payment_method !== undefined) {
      return { outcome: 'valid', details: detailsOf(json), body: json };
    }
    return {
      outcome: 'invalid',
      errors: [fieldProblem(['payment_method'], 'missing: only a card is captured')],
    };
  }
  return { outcome: 'invalid', errors: explain(json) };
}

/** What is said of a payment. */
export const payment = {
  fields: paymentFields,
  request: paymentRequestSchema,
  examples: requestExamples,
  accepted: acceptedPaymentSchema,
  shown: paymentSchema,
  told: { 'payment.requires_action': requiresAction, 'payment.disputed': disputed },
  validate: validatePaymentRequest,
} satisfies KindContract<PaymentDetails>;

/** The domain's form of fields that were validated. */
export function detailsOf(fields: PaymentRequest): PaymentDetails {
  const {
    amount,
    currency,
    payment_method: paymentMethod,
    return_url: returnUrl,
    capture_method: captureMethod,
    reference,
    description,
    metadata,
  } = fields;
  return {
    money: { amount: BigInt(amount), currency: currency as Currency },
    ...(paymentMethod === undefined ? {} : { paymentMethod }),
    ...(returnUrl === undefined ? {} : { returnUrl }),
    ...(captureMethod === undefined ? {} : { captureMethod }),
    ...(reference === undefined ? {} : { reference }),
    ...(description === undefined ? {} : { description }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

function explainPairs(name: string, metadata: JsonValue): FieldProblem[] {
  if (name !== 'metadata' || !isJsonObject(metadata)) return [];
  return Object.entries(metadata).flatMap(([name, value]) => [
    ...(pair['name']!.Check(name)
      ? []
      : [fieldProblem(['metadata', name], wanted(metadataPair.name))]),
    ...(pair['value']!.Check(value)
      ? []
      : [fieldProblem(['metadata', name], wanted(metadataPair.value))]),
  ]);
}

/**
 * The newest form of the 202 body. Add a case to {@link renderAccepted} for another; never edit
 * one.
 */
export const responseVersion = 1;

/** The 202: all of it can be made again, byte for byte. */
export type AcceptedAnswer = { status: number; location: string; body: string };

/**
 * The 202 of a payment, made only from the request and its id: fields in a fixed order, metadata
 * sorted by name. Nobody keeps it: whatever has the fingerprint of the request, a retry or the
 * ledger's row, makes the same bytes.
 *
 * @throws for a version this code does not know, which is a bug of a deploy.
 */
export function renderAccepted(payment: AcceptedPayment): AcceptedAnswer {
  if (payment.responseVersion !== 1) {
    throw new Error(`response version ${payment.responseVersion} is not known here`);
  }
  const fields = {
    id: payment.txnId,
    object: payment.kind,
    status: 'pending',
    ...asSent(payment.details),
  };
  const location = `/v1/${payment.kind}s/${payment.txnId}`;
  return { status: 202, location, body: JSON.stringify(fields) };
}

/** The request's fields as the partner sent them, in the order in which every answer shows them. */
export function asSent(details: AcceptedPayment['details']): JsonObject {
  const { money, paymentMethod, returnUrl, captureMethod } = details;
  const { reference, description, metadata } = details;
  // Filled in and not spread together: this is done several times for every payment.
  const sent: Record<string, JsonValue> = {
    amount: Number(money.amount),
    currency: money.currency,
  };
  if (paymentMethod !== undefined) sent['payment_method'] = paymentMethod;
  if (returnUrl !== undefined) sent['return_url'] = returnUrl;
  if (captureMethod !== undefined) sent['capture_method'] = captureMethod;
  if (reference !== undefined) sent['reference'] = reference;
  if (description !== undefined) sent['description'] = description;
  if (metadata !== undefined) sent['metadata'] = sortedByName(metadata);
  return sent;
}

/**
 * Any order that the partner chose gives the same bytes. No name is `__proto__`: it was refused.
 */
function sortedByName(metadata: Readonly<Record<string, string>>): JsonObject {
  const sorted: Record<string, string> = {};
  for (const name of Object.keys(metadata).sort()) sorted[name] = metadata[name]!;
  return sorted;
}

function statusOf({ state, authorizedAt }: Payment): PaymentStatus {
  return state === 'pending' && authorizedAt !== undefined ? 'authorized' : state;
}

/** A payment as `GET /v1/payments/{id}` and a webhook's `data` show it. */
export function renderPayment(payment: Payment): JsonObject {
  return {
    id: payment.txnId,
    object: payment.kind,
    status: statusOf(payment),
    ...asSent(payment.details),
    ...(payment.details.captureMethod && { amount_captured: Number(payment.amountCaptured ?? 0n) }),
    ...(payment.kind === 'payment' && { amount_refunded: Number(payment.amountRefunded) }),
    created_at: payment.acceptedAt.toISOString(),
    settled_at: payment.settledAt?.toISOString() ?? null,
    ...(payment.failure === undefined ? {} : { failure: { ...payment.failure } }),
    ...renderProvider(payment.provider),
  };
}

/** The same, to its partner alone, with what its customer has to do. */
export function renderAwaiting(
  payment: Payment,
  { type, ...rest }: NextAction,
  expiresAt: Date,
): JsonObject {
  const next_action = { type, expires_at: expiresAt.toISOString(), ...rest };
  return { ...renderPayment(payment), next_action };
}

/** Shown once there is a charge: an intent alone has moved nothing. */
function renderProvider(provider: Payment['provider']): JsonObject {
  if (provider?.chargeId === undefined) return {};
  return { provider: { name: provider.name, charge_id: provider.chargeId } };
}

/** The same fields for a payment that was accepted and that the ledger does not know yet. */
export function renderPending(accepted: AcceptedPayment): JsonObject {
  return renderPayment({
    ...accepted,
    state: 'pending',
    version: 0,
    amountRefunded: 0n,
    settledAt: null,
  });
}
