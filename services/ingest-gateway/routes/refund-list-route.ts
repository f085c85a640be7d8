import { parseRefundListQuery, type RefundListQuery } from '@triplock/contracts';
import { isTxnId } from '@triplock/payments';
import type { FastifyInstance } from 'fastify';
import { incorrectParameters, queryText } from '../http/incorrect-request.ts';
import { listRefunds, type ListRefundsParts } from './list-refunds.ts';
import { addListRoute, type ListRouteParts } from './list-route.ts';
import { listRefundsOperation } from './refund-operations.ts';
import { notFound } from '../http/story-problems.ts';

/** What the route stands on. */
export type RefundListRouteParts = ListRefundsParts & ListRouteParts;

/** `GET /v1/payments/{id}/refunds`. */
export function addRefundListRoute(app: FastifyInstance, parts: RefundListRouteParts): void {
  addListRoute(app, parts, {
    path: '/v1/payments/:id/refunds',
    schema: listRefundsOperation,
    cursorIs: 'a refund of this payment',
    list: ({ url, partnerId, params }) => {
      const { id: paymentId } = params as { id: string };
      if (!isTxnId(paymentId)) throw notFound('payment');
      return listRefunds(parts, { paymentId, partnerId, query: queryOf(url) });
    },
  });
}

/** @throws Problem that points at every parameter that is wrong. */
function queryOf(target: string): RefundListQuery {
  const parsed = parseRefundListQuery(queryText(target));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  return parsed.query;
}
