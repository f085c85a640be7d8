import { parsePaymentListQuery, type PaymentListQuery } from '@triplock/contracts';
import type { FastifyInstance } from 'fastify';
import { incorrectParameters, queryText } from '../http/incorrect-request.ts';
import { listPayments, type ListParts } from './list-payments.ts';
import { addListRoute, type ListRouteParts } from './list-route.ts';
import { listPaymentsOperation } from './payment-operations.ts';

/** What the route stands on. */
export type PaymentListRouteParts = ListParts & ListRouteParts;

/** `GET /v1/payments`. */
export function addPaymentListRoute(app: FastifyInstance, parts: PaymentListRouteParts): void {
  addListRoute(app, parts, {
    path: '/v1/payments',
    schema: listPaymentsOperation,
    cursorIs: 'a payment of yours',
    list: ({ url, partnerId }) => listPayments(parts, { partnerId, query: queryOf(url) }),
  });
}

/** @throws Problem that points at every parameter that is wrong. */
function queryOf(target: string): PaymentListQuery {
  const parsed = parsePaymentListQuery(queryText(target));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  return parsed.query;
}
