import type { TxnId } from '@triplock/payments';
import { Type } from 'typebox';
import { listQueryParser } from './list-query.ts';
import { limitSchema, pageSizeUsual } from './payment-list-query.ts';
import { txnIdSchema } from './payment-schemas.ts';
import type { FieldProblem } from './problem.ts';

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

const parse = listQueryParser(refundListQuerySchema);

/** Parses the query of `GET /v1/payments/{id}/refunds`, without its `?`. */
export function parseRefundListQuery(query: string): ParsedRefundListQuery {
  const parsed = parse(query);
  if (parsed.outcome === 'invalid') return parsed;
  const { limit = pageSizeUsual, starting_after: startingAfter } = parsed.values;
  return { outcome: 'valid', query: { limit, startingAfter } };
}
