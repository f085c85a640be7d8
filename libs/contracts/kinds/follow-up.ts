import {
  type AcceptedFollowUp,
  type FollowUp,
  type FollowUpDetails,
  type FollowUpKind,
  type JsonObject,
  type JsonValue,
} from '@triplock/payments';
import { amountSchema, failure, shownTime, txnIdSchema, withoutControls } from '../http/fields.ts';
import { explainBody } from '../http/validation.ts';
import { Compile, Type, type Static, type TObject } from '../schema.ts';
import type { KindContract, ValidatedRequest } from './kind.ts';
import { paymentFields, type AcceptedAnswer } from './payment.ts';

const amount = Type.Optional(amountSchema);
const reason = Type.Optional(
  Type.String({
    maxLength: 200,
    pattern: withoutControls,
    description: 'a text of at most 200 characters without control characters',
  }),
);

/** What partners may say of what follows a payment: each kind has some, all optional. */
export const followUpFields = { amount, reason };

/** The body of each after validation: a capture has no reason, a cancellation no amount. */
export type FollowUpRequest = Static<TObject<typeof followUpFields>>;

/** What a partner asks for by one kind, and what is said of its payment and amount. */
type About = {
  fields: Partial<typeof followUpFields>;
  examples: readonly [JsonObject, JsonObject];
  payment: string;
  amount: string;
  /** What `{}` does. */
  noAmount: string;
};

/** The contract of a kind: `POST /v1/payments/{id}/refunds` and so on, and `GET` by its id. */
export function followUpContract(kind: FollowUpKind, about: About): KindContract<FollowUpDetails> {
  const fields = about.fields as typeof followUpFields;
  const { examples } = about;
  const request = Type.Object(fields, { additionalProperties: false, examples });
  const check = Compile(request);
  const isOne = (json: JsonValue): json is FollowUpRequest => check.Check(json);
  const explain = explainBody(request);
  const validate = (json: JsonValue | undefined): ValidatedRequest<FollowUpDetails> => {
    // A client that lost its body would otherwise give back or capture everything.
    if (json === undefined) {
      const detail = `expected a JSON object; \`{}\` ${about.noAmount}`;
      return { outcome: 'invalid', errors: [{ pointer: '#', detail }] };
    }
    if (!isOne(json)) return { outcome: 'invalid', errors: explain(json) };
    return { outcome: 'valid', details: followUpDetailsOf(json), body: json };
  };
  const accepted = acceptedSchemaOf(kind, fields);
  const shown = shownSchemaOf(kind, about);
  return { fields, request, examples, accepted, shown, validate };
}

function acceptedSchemaOf(kind: FollowUpKind, fields: typeof followUpFields) {
  return Type.Object(
    {
      id: txnIdSchema,
      object: Type.Literal(kind),
      payment: txnIdSchema,
      status: Type.Literal('pending'),
      ...fields,
    },
    { additionalProperties: false },
  );
}

function shownSchemaOf(kind: FollowUpKind, about: About) {
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
