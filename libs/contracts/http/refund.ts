import type {
  AcceptedRefund,
  JsonObject,
  JsonValue,
  Refund,
  RefundDetails,
} from '@triplock/payments';
import { Type, type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { amountSchema, failure, shownTime, txnIdSchema, withoutControls } from './fields.ts';
import { paymentFields, type AcceptedAnswer } from './payment.ts';
import type { FieldProblem } from './problem.ts';
import { explainBody } from './validation.ts';

/** What a partner asked for in a refund, in requests, records and answers. */
export const refundFields = {
  amount: Type.Optional(amountSchema),
  reason: Type.Optional(
    Type.String({
      maxLength: 200,
      pattern: withoutControls,
      description: 'a text of at most 200 characters without control characters',
    }),
  ),
};

/** The body of `POST /v1/payments/{id}/refunds`. */
export const refundRequestSchema = Type.Object(refundFields, { additionalProperties: false });

/** The 202 body of `POST /v1/payments/{id}/refunds`. */
export const acceptedRefundSchema = Type.Object(
  {
    id: txnIdSchema,
    object: Type.Literal('refund'),
    payment: txnIdSchema,
    status: Type.Literal('pending'),
    ...refundFields,
  },
  { additionalProperties: false },
);

/** A refund as `GET /v1/refunds/{id}` shows it. */
export const refundSchema = Type.Object(
  {
    id: txnIdSchema,
    object: Type.Literal('refund'),
    payment: Type.String({ ...txnIdSchema, description: 'the id of the payment it gives back' }),
    status: Type.Unsafe<string>({ type: 'string', enum: ['pending', 'succeeded', 'failed'] }),
    amount: Type.Optional(
      Type.Integer({
        ...amountSchema,
        description: 'minor units; for all that is left, known once the refund is posted',
      }),
    ),
    currency: Type.Optional(paymentFields.currency),
    reason: refundFields.reason,
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

/**
 * What validating a body gives: the refund and the value its fingerprint is made of, or why not.
 */
export type ValidatedRefundRequest =
  | { outcome: 'valid'; details: RefundDetails; body: JsonObject }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

/** The body of `POST /v1/payments/{id}/refunds` after validation. */
export type RefundRequest = Static<typeof refundRequestSchema>;

const request = Compile(refundRequestSchema);
const explain = explainBody(refundRequestSchema);

/**
 * Checks a body of `POST /v1/payments/{id}/refunds`. `undefined` means that there was no body: that
 * is refused, because a client that lost its body would otherwise give back everything.
 */
export function validateRefundRequest(json: JsonValue | undefined): ValidatedRefundRequest {
  if (json === undefined) {
    const detail = 'expected a JSON object; `{}` gives back all that is left of the payment';
    return { outcome: 'invalid', errors: [{ pointer: '#', detail }] };
  }
  if (request.Check(json)) return { outcome: 'valid', details: refundDetailsOf(json), body: json };
  return { outcome: 'invalid', errors: explain(json) };
}

/** The domain's form of fields that were validated. */
export function refundDetailsOf({ amount, reason }: RefundRequest): RefundDetails {
  return {
    ...(amount === undefined ? {} : { amount: BigInt(amount) }),
    ...(reason === undefined ? {} : { reason }),
  };
}

/**
 * The 202 of a refund, made only from the request and its id, so that a retry and the ledger row
 * give the same bytes.
 *
 * @throws for a version this code does not know, which is a bug of a deploy.
 */
export function renderAcceptedRefund(refund: AcceptedRefund): AcceptedAnswer {
  if (refund.responseVersion !== 1) {
    throw new Error(`response version ${refund.responseVersion} is not known here`);
  }
  const fields = {
    id: refund.txnId,
    object: 'refund',
    payment: refund.paymentId,
    status: 'pending',
    ...refundAsSent(refund.details),
  };
  return { status: 202, location: `/v1/refunds/${refund.txnId}`, body: JSON.stringify(fields) };
}

/** The request's fields as the partner sent them, in the order in which every answer shows them. */
export function refundAsSent({ amount, reason }: AcceptedRefund['details']): JsonObject {
  return {
    ...(amount === undefined ? {} : { amount: Number(amount) }),
    ...(reason === undefined ? {} : { reason }),
  };
}

/** A refund as `GET /v1/refunds/{id}` and a webhook's `data` show it. */
export function renderRefund(refund: Refund): JsonObject {
  const { money, details, failure } = refund;
  const amount = money?.amount ?? details.amount;
  return {
    id: refund.txnId,
    object: 'refund',
    payment: refund.paymentId,
    status: refund.state,
    ...(amount === undefined ? {} : { amount: Number(amount) }),
    ...(money === undefined ? {} : { currency: money.currency }),
    ...(details.reason === undefined ? {} : { reason: details.reason }),
    created_at: refund.acceptedAt.toISOString(),
    settled_at: refund.settledAt?.toISOString() ?? null,
    ...(failure === undefined ? {} : { failure: { ...failure } }),
  };
}

/** The same fields for a refund that was accepted and that the ledger does not know yet. */
export function renderPendingRefund(accepted: AcceptedRefund): JsonObject {
  return renderRefund({ ...accepted, state: 'pending', version: 0, settledAt: null });
}
