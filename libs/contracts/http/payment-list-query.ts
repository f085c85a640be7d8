import type { TransactionState, TxnId } from '@triplock/payments';
import { Type } from 'typebox';
import { listQueryParser } from './list-query.ts';
import { paymentRequestSchema, txnIdSchema } from './payment-schemas.ts';
import type { FieldProblem } from './problem.ts';

/** How many are on a page of a list when the partner does not say. */
export const pageSizeUsual = 20;

/** How many a page may have. */
export const limitSchema = Type.Integer({
  minimum: 1,
  maximum: 100,
  default: pageSizeUsual,
  description: 'a whole number from 1 to 100',
});

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
      Type.Unsafe<TransactionState>({
        type: 'string',
        enum: ['pending', 'succeeded', 'failed'],
        description: 'pending, succeeded or failed',
      }),
    ),
    reference: paymentRequestSchema.properties.reference,
  },
  { additionalProperties: false },
);

/** What a partner wishes to see of its payments. */
export type PaymentListQuery = {
  limit: number;
  startingAfter?: TxnId;
  status?: TransactionState;
  reference?: string;
};

/** What parsing gives: the wishes, or everything that is wrong with them (the first 50). */
export type ParsedPaymentListQuery =
  | { outcome: 'valid'; query: PaymentListQuery }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

const parse = listQueryParser(paymentListQuerySchema);

/** Parses the query of `GET /v1/payments`, without its `?`. */
export function parsePaymentListQuery(query: string): ParsedPaymentListQuery {
  const parsed = parse(query);
  if (parsed.outcome === 'invalid') return parsed;
  const { limit = pageSizeUsual, starting_after: startingAfter, status, reference } = parsed.values;
  const wishes = { limit, startingAfter, status, reference };
  return { outcome: 'valid', query: wishes };
}
