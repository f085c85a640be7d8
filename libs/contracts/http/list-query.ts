import type { PaymentStatus, TxnId } from '@triplock/payments';
import { Type } from '../schema.ts';
import { limitSchema, pageSizeUsual, paymentStatuses, txnIdSchema } from './fields.ts';
import { paymentRequestSchema } from '../kinds/payment.ts';
import type { FieldProblem } from './problem.ts';
import { noDayIn, timeOf, timeSchema } from './times.ts';
import { listQueryParser } from './validation.ts';
import { deliveryIdSchema, webhookDeliveryStates } from './webhook-delivery.ts';

/** The query of `GET /v1/payments`; what validates is what the OpenAPI document shows. */
export const paymentListQuerySchema = Type.Object(
  {
    limit: Type.Optional(limitSchema),
    starting_after: Type.Optional(
      Type.Unsafe<TxnId>({
        ...txnIdSchema,
        description: 'the id of a payment of yours from a page before',
      }),
    ),
    status: Type.Optional(
      Type.Unsafe<PaymentStatus>({
        type: 'string',
        enum: paymentStatuses,
        description: 'pending, authorized, succeeded, captured, failed or canceled',
      }),
    ),
    reference: paymentRequestSchema.properties.reference,
    since: Type.Optional(timeSchema),
    until: Type.Optional(timeSchema),
  },
  { additionalProperties: false },
);

/** What a partner wishes to see of its payments. */
export type PaymentListQuery = {
  limit: number;
  startingAfter?: TxnId;
  status?: PaymentStatus;
  reference?: string;
  /** Those whose `created_at` is this or later. */
  since?: Date;
  /** Those whose `created_at` is earlier. */
  until?: Date;
};

/** What parsing gives: the wishes, or everything that is wrong with them (the first 50). */
export type ParsedPaymentListQuery =
  | { outcome: 'valid'; query: PaymentListQuery }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

const parsePayments = listQueryParser(paymentListQuerySchema);

/** Parses the query of `GET /v1/payments`, without its `?`. */
export function parsePaymentListQuery(query: string): ParsedPaymentListQuery {
  const parsed = parsePayments(query);
  if (parsed.outcome === 'invalid') return parsed;
  const { limit = pageSizeUsual, starting_after: startingAfter, ...others } = parsed.values;
  const { status, reference, since, until } = others;
  const errors = noDayIn({ since, until });
  if (errors.length > 0) return { outcome: 'invalid', errors };
  const at = (time: string | undefined) => (time === undefined ? undefined : timeOf(time));
  const times = { since: at(since), until: at(until) };
  return { outcome: 'valid', query: { limit, startingAfter, status, reference, ...times } };
}

/** The query of `GET /v1/payments/{id}/refunds`. */
export const refundListQuerySchema = Type.Object(
  {
    limit: Type.Optional(limitSchema),
    starting_after: Type.Optional(
      Type.Unsafe<TxnId>({
        ...txnIdSchema,
        description: 'the id of a refund of this payment from a page before',
      }),
    ),
  },
  { additionalProperties: false },
);

/** What a partner wishes to see of a payment's refunds. */
export type RefundListQuery = { limit: number; startingAfter?: TxnId };

/** What parsing gives: the wishes, or everything that is wrong with them (the first 50). */
export type ParsedRefundListQuery =
  | { outcome: 'valid'; query: RefundListQuery }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

const parseRefunds = listQueryParser(refundListQuerySchema);

/** Parses the query of `GET /v1/payments/{id}/refunds`, without its `?`. */
export function parseRefundListQuery(query: string): ParsedRefundListQuery {
  const parsed = parseRefunds(query);
  if (parsed.outcome === 'invalid') return parsed;
  const { limit = pageSizeUsual, starting_after: startingAfter } = parsed.values;
  return { outcome: 'valid', query: { limit, startingAfter } };
}

/** The query of `GET /v1/webhook-deliveries`; what validates is what the OpenAPI document shows. */
export const webhookDeliveryListQuerySchema = Type.Object(
  {
    limit: Type.Optional(limitSchema),
    starting_after: Type.Optional(
      Type.String({
        ...deliveryIdSchema,
        description: 'the id of a delivery of yours from a page before',
      }),
    ),
    status: Type.Optional(
      Type.Unsafe<(typeof webhookDeliveryStates)[number]>({
        type: 'string',
        enum: webhookDeliveryStates,
        description: 'pending, parked, delivered, failed or canceled',
      }),
    ),
    txn_id: Type.Optional(
      Type.Unsafe<TxnId>({ ...txnIdSchema, description: 'the id of a payment or refund' }),
    ),
  },
  { additionalProperties: false },
);

/** Parses the query of `GET /v1/webhook-deliveries`, without its `?`. */
export const parseWebhookDeliveryListQuery = listQueryParser(webhookDeliveryListQuerySchema);
