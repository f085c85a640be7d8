import {
  followUpKinds,
  type AcceptedFollowUp,
  type FollowUpKind,
  type JsonObject,
  type JsonValue,
  type FollowUp,
  type FollowUpDetails,
} from '@triplock/payments';
import { Compile, Type, type Static, type TObject } from '../schema.ts';
import { amountSchema, failure, shownTime, txnIdSchema, withoutControls } from './fields.ts';
import { paymentFields, type AcceptedAnswer } from './payment.ts';
import type { FieldProblem } from './problem.ts';
import { explainBody } from './validation.ts';

const amount = Type.Optional(amountSchema);
const reason = Type.Optional(
  Type.String({
    maxLength: 200,
    pattern: withoutControls,
    description: 'a text of at most 200 characters without control characters',
  }),
);
type Fields = { amount: typeof amount; reason: typeof reason };

/** What a partner asks for by one kind, and what is said of its payment and amount. */
type AboutKind = { fields: Partial<Fields>; payment: string; amount: string; noAmount: string };

const followUps = {
  refund: {
    fields: { amount, reason },
    payment: 'the id of the payment it gives back',
    amount: 'minor units; for all that is left, known once the refund is posted',
    noAmount: 'gives back all that is left of the payment',
  },
  capture: {
    fields: { amount },
    payment: 'the id of the payment it captures',
    amount: 'minor units; for all of it, known once the capture is posted',
    noAmount: 'captures the whole payment',
  },
  cancellation: {
    fields: { reason },
    payment: 'the id of the payment it cancels',
    amount: 'minor units that are let go, known once the cancellation is posted',
    noAmount: 'lets the whole payment go',
  },
} as const satisfies Record<FollowUpKind, AboutKind>;

/** What a partner asks for, in requests, records and answers: each has some, all optional. */
export const followUpFields = eachFollowUp((kind) => followUps[kind].fields as Fields);

/**
 * By kind, the body of `POST /v1/payments/{id}/refunds` and so on, that of its 202, and what `GET`
 * by its id shows.
 */
export const followUpSchemas = eachFollowUp((kind) => ({
  request: Type.Object(followUpFields[kind], { additionalProperties: false }),
  accepted: acceptedSchemaOf(kind),
  shown: shownSchemaOf(kind),
}));

/** The same of every kind of follow-up. */
export function eachFollowUp<Each>(
  of: (kind: FollowUpKind) => Each,
): Readonly<Record<FollowUpKind, Each>> {
  const all = followUpKinds.map((kind) => [kind, of(kind)] as const);
  return Object.fromEntries(all) as Record<FollowUpKind, Each>;
}

function acceptedSchemaOf(kind: FollowUpKind) {
  return Type.Object(
    {
      id: txnIdSchema,
      object: Type.Literal(kind),
      payment: txnIdSchema,
      status: Type.Literal('pending'),
      ...followUpFields[kind],
    },
    { additionalProperties: false },
  );
}

function shownSchemaOf(kind: FollowUpKind) {
  const about = followUps[kind];
  return Type.Object(
    {
      id: txnIdSchema,
      object: Type.Literal(kind),
      payment: Type.String({ ...txnIdSchema, description: about.payment }),
      status: Type.Unsafe<string>({ type: 'string', enum: ['pending', 'succeeded', 'failed'] }),
      amount: Type.Optional(Type.Integer({ ...amountSchema, description: about.amount })),
      currency: Type.Optional(paymentFields.currency),
      ...('reason' in about.fields && { reason }),
      created_at: Type.String(shownTime),
      settled_at: Type.Unsafe<string | null>({
        type: ['string', 'null'],
        ...shownTime,
        description: 'when it became final; null while pending',
      }),
      failure: Type.Optional(failure),
    },
    { additionalProperties: false },
  );
}

/**
 * What validating a body gives: what is asked for and the value its fingerprint is made of, or why
 * not.
 */
export type ValidatedFollowUpRequest =
  | { outcome: 'valid'; details: FollowUpDetails; body: JsonObject }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

/** The body of each after validation: a capture has no reason, a cancellation no amount. */
export type FollowUpRequest = Static<TObject<Fields>>;

const requests = eachFollowUp((kind) => {
  const { request } = followUpSchemas[kind];
  const check = Compile(request);
  return {
    isOne: (json: JsonValue): json is FollowUpRequest => check.Check(json),
    explain: explainBody(request),
  };
});

/**
 * Checks a body of `POST /v1/payments/{id}/refunds`, `…/captures` or `…/cancellations`. `undefined`
 * means that there was no body: that is refused, because a client that lost its body would
 * otherwise give back or capture everything.
 */
export function validateFollowUpRequest(
  kind: FollowUpKind,
  json: JsonValue | undefined,
): ValidatedFollowUpRequest {
  const { isOne, explain } = requests[kind];
  if (json === undefined) {
    const detail = `expected a JSON object; \`{}\` ${followUps[kind].noAmount}`;
    return { outcome: 'invalid', errors: [{ pointer: '#', detail }] };
  }
  if (isOne(json)) return { outcome: 'valid', details: followUpDetailsOf(json), body: json };
  return { outcome: 'invalid', errors: explain(json) };
}

/** The domain's form of fields that were validated. */
export function followUpDetailsOf({ amount, reason }: FollowUpRequest): FollowUpDetails {
  return {
    ...(amount === undefined ? {} : { amount: BigInt(amount) }),
    ...(reason === undefined ? {} : { reason }),
  };
}

/**
 * The 202 of a refund, capture or cancellation, made only from the request and its id, so that a
 * retry and the ledger row give the same bytes.
 *
 * @throws for a version this code does not know, which is a bug of a deploy.
 */
export function renderAcceptedFollowUp(followUp: AcceptedFollowUp): AcceptedAnswer {
  if (followUp.responseVersion !== 1) {
    throw new Error(`response version ${followUp.responseVersion} is not known here`);
  }
  const fields = {
    id: followUp.txnId,
    object: followUp.kind,
    payment: followUp.paymentId,
    status: 'pending',
    ...followUpAsSent(followUp.details),
  };
  return {
    status: 202,
    location: `/v1/${followUp.kind}s/${followUp.txnId}`,
    body: JSON.stringify(fields),
  };
}

/** The request's fields as the partner sent them, in the order in which every answer shows them. */
export function followUpAsSent({ amount, reason }: AcceptedFollowUp['details']): JsonObject {
  return {
    ...(amount === undefined ? {} : { amount: Number(amount) }),
    ...(reason === undefined ? {} : { reason }),
  };
}

/**
 * One as `GET /v1/refunds/{id}`, `/v1/captures/{id}` or `/v1/cancellations/{id}` and a webhook's
 * `data` show it.
 */
export function renderFollowUp(followUp: FollowUp): JsonObject {
  const { money, details, failure } = followUp;
  const amount = money?.amount ?? details.amount;
  return {
    id: followUp.txnId,
    object: followUp.kind,
    payment: followUp.paymentId,
    status: followUp.state,
    ...(amount === undefined ? {} : { amount: Number(amount) }),
    ...(money === undefined ? {} : { currency: money.currency }),
    ...(details.reason === undefined ? {} : { reason: details.reason }),
    created_at: followUp.acceptedAt.toISOString(),
    settled_at: followUp.settledAt?.toISOString() ?? null,
    ...(failure === undefined ? {} : { failure: { ...failure } }),
  };
}

/** The same fields for one that was accepted and that the ledger does not know yet. */
export function renderPendingFollowUp(accepted: AcceptedFollowUp): JsonObject {
  return renderFollowUp({ ...accepted, state: 'pending', version: 0, settledAt: null });
}
