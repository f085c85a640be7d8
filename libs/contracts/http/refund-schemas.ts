import { Type } from 'typebox';
import {
  amountSchema,
  failure,
  paymentFields,
  shownTime,
  txnIdSchema,
  withoutControls,
} from './payment-schemas.ts';

/** What a partner said about a refund, in requests, records and answers. */
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
