import { parsePaymentListQuery, type PaymentListQuery } from '@triplock/contracts';
import type { Logger } from '@triplock/runtime';
import type { FastifyInstance, FastifyReply } from 'fastify';
import './http-types.ts';
import { listPayments, type ListParts, type ListPageOutcome } from './list-payments.ts';
import type { GatewayMetrics } from './metrics.ts';
import { listPaymentsOperation } from './payment-operations.ts';
import { incorrectParameters, queryText } from './query-text.ts';
import { unknownYet } from './story-problems.ts';

/** What the route stands on. */
export type PaymentListRouteParts = ListParts & { metrics: GatewayMetrics; logger: Logger };

/** `GET /v1/payments`. */
export function addPaymentListRoute(app: FastifyInstance, parts: PaymentListRouteParts): void {
  const { metrics, logger } = parts;
  app.get('/v1/payments', { schema: listPaymentsOperation }, async (request, reply) => {
    const query = queryOf(request.url);
    const { partnerId } = request;
    const outcome = await listPayments(parts, { partnerId, query }).catch((error: unknown) => {
      logger.warn({ err: error, partnerId }, 'list failed');
      return { outcome: 'unavailable' } as const;
    });
    metrics.lists.count(outcome.outcome);
    return answer(reply, outcome);
  });
}

/** @throws Problem that points at every parameter that is wrong. */
function queryOf(target: string): PaymentListQuery {
  const parsed = parsePaymentListQuery(queryText(target));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  return parsed.query;
}

function answer(
  reply: FastifyReply,
  outcome: ListPageOutcome | { outcome: 'unavailable' },
): FastifyReply {
  switch (outcome.outcome) {
    case 'page':
      return reply.code(200).type('application/json').send(outcome.body);
    case 'unknown-cursor': {
      const detail = 'expected the id of a payment of yours that was listed before';
      throw incorrectParameters([{ pointer: '#/starting_after', detail }]);
    }
    case 'unavailable':
      throw unknownYet();
  }
}
