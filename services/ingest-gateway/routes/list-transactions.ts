import {
  Problem,
  paymentListQuerySchema,
  parsePaymentListQuery,
  parseRefundListQuery,
  refundListQuerySchema,
  renderPayment,
  renderFollowUp,
  txnIdSchema,
} from '@triplock/contracts';
import { isTxnId, type JsonObject } from '@triplock/payments';
import type { FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import { findOwnPayment } from '../accept/find-transaction.ts';
import type { Gateway } from '../gateway.ts';
import {
  incorrectParameters,
  notFound,
  queryText,
  unknownCursor,
  unknownYet,
} from '../http/problems.ts';
import type { PartnerRoutes } from './partner-routes.ts';
import { pageResponse, problems } from './schemas.ts';

const endsEarly =
  'An answer is 256 KiB at most: where texts are long a page has fewer than `limit`, and one at ' +
  'least if there is one. So go by `has_more`, and not by how many came. ';

const listPayments: FastifySchema = {
  operationId: 'listPayments',
  summary: 'List payments',
  description:
    'Newest first by `created_at`, then by `id`, both descending. It shows what the ledger has ' +
    'posted: a payment that was accepted a moment ago can be read by its id before it is listed. ' +
    endsEarly +
    'Follow it with `starting_after` set to the last id of the page: every payment that ' +
    'was posted when the first page was read comes once, and none comes twice. One that is posted ' +
    'meanwhile may come or not, and is there when the list is read again from its beginning: it ' +
    'may have been accepted before others that were posted sooner, and so stand below them. ' +
    'Of two windows the first of which is `until` when the other is `since`, each has what the ' +
    'other has not. ' +
    '`status` is that of the moment; the payment of `starting_after` need not have it any more.',
  querystring: paymentListQuerySchema,
  response: {
    200: pageResponse('payment'),
    ...problems('invalid_request', 'unauthorized', 'internal_error', 'unavailable'),
  },
};

const listRefunds: FastifySchema = {
  operationId: 'listRefunds',
  summary: "List a payment's refunds",
  description:
    'Newest first by `created_at`, then by `id`, both descending, failed ones among them. It shows ' +
    'what the ledger has posted: a refund that was accepted a moment ago can be read by its id ' +
    `before it is listed. ${endsEarly}` +
    'Follow it with `starting_after` set to the last id of the page.',
  params: { type: 'object', required: ['id'], properties: { id: txnIdSchema } },
  querystring: refundListQuerySchema,
  response: {
    200: pageResponse('refund'),
    ...problems('invalid_request', 'unauthorized', 'not_found', 'internal_error', 'unavailable'),
  },
};

/** A page of a hundred costs this process as much as ten payments or more. */
export const pageCost = { tokens: 10 };

/** `GET /v1/payments` and `GET /v1/payments/{id}/refunds`: what the ledger has posted. */
export function addListRoutes(app: PartnerRoutes, gateway: Gateway): void {
  const payments = { schema: listPayments, scope: 'any', config: pageCost } as const;
  const refunds = { schema: listRefunds, scope: 'any', config: pageCost } as const;
  app.get('/v1/payments', payments, (request, reply) =>
    list(gateway, reply, {
      page: () => paymentsOf(gateway, request),
      cursorIs: 'a payment of yours',
    }),
  );
  app.get('/v1/payments/:id/refunds', refunds, (request, reply) =>
    list(gateway, reply, {
      page: () => refundsOf(gateway, request),
      cursorIs: 'a refund of this payment',
    }),
  );
}

/** What asking for a page gives. */
export type PageOutcome =
  | { outcome: 'page'; body: string }
  /** Nobody's, or another partner's. */
  | { outcome: 'unknown-cursor' }
  /** The refunds of nobody's payment, or of another partner's. */
  | { outcome: 'not-found' }
  /** Unknown to the ledger, and the claims were lost before it caught up. */
  | { outcome: 'cold' };

/**
 * Accepted payments that are not posted yet are not in it: the claims are found by id only, and the
 * ledger's order is the one that a walk from page to page can rely on.
 *
 * @throws Problem that points at every parameter that is wrong.
 */
async function paymentsOf({ ledger }: Gateway, request: FastifyRequest): Promise<PageOutcome> {
  const { partnerId, url } = request;
  const parsed = parsePaymentListQuery(queryText(url));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  const { startingAfter: after, ...wishes } = parsed.query;
  const listed = await ledger.list({ partnerId, after, ...wishes });
  if (listed.outcome === 'unknown-cursor') return listed;
  const { payments, hasMore } = listed;
  return pageOf(payments.map(renderPayment), hasMore);
}

/** @throws Problem when the path names no payment, or that points at every wrong parameter. */
async function refundsOf(gateway: Gateway, request: FastifyRequest): Promise<PageOutcome> {
  const { partnerId, url } = request;
  const { id: paymentId } = request.params as { id: string };
  if (!isTxnId(paymentId)) throw notFound('payment');
  const parsed = parseRefundListQuery(queryText(url));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  const found = await findOwnPayment(gateway, { paymentId, partnerId });
  if (found.outcome !== 'own') return found;
  const { limit, startingAfter: after } = parsed.query;
  const listed = await gateway.refunds.listOf({ paymentId, partnerId, limit, after });
  if (listed.outcome === 'unknown-cursor') return listed;
  const { refunds, hasMore } = listed;
  return pageOf(refunds.map(renderFollowUp), hasMore);
}

/** Rendered once for all who share it. */
export function pageOf(data: readonly JsonObject[], hasMore: boolean): PageOutcome {
  return {
    outcome: 'page',
    body: JSON.stringify({ object: 'list', data, has_more: hasMore }),
  };
}

/** Answers with a page; a store that does not answer in time is a 503. */
export async function list(
  { metrics, logger, turns, budgetMs: withinMs }: Gateway,
  reply: FastifyReply,
  { page, cursorIs }: { page: () => Promise<PageOutcome>; cursorIs: string },
): Promise<FastifyReply> {
  const { partnerId, id: requestId, url: same } = reply.request;
  const outcome = await turns
    .take({ partnerId, what: 'listing', withinMs, same }, page)
    .catch((error: unknown) => {
      if (error instanceof Problem) throw error;
      logger.warn({ err: error, partnerId, requestId }, 'list failed');
      return { outcome: 'unavailable' } as const;
    });
  metrics.lists.count(outcome.outcome);
  switch (outcome.outcome) {
    case 'page':
      return reply.code(200).type('application/json').send(outcome.body);
    case 'unknown-cursor':
      throw unknownCursor(cursorIs);
    case 'not-found':
      throw notFound('payment');
    case 'cold':
    case 'unavailable':
      throw unknownYet();
    default:
      return outcome satisfies never;
  }
}
