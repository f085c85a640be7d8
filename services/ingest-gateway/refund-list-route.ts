import { parseRefundListQuery, type RefundListQuery } from '@triplock/contracts';
import { isTxnId } from '@triplock/payments';
import type { Logger } from '@triplock/runtime';
import type { FastifyInstance, FastifyReply } from 'fastify';
import './http-types.ts';
import { listRefunds, type ListRefundsParts, type RefundPageOutcome } from './list-refunds.ts';
import type { GatewayMetrics } from './metrics.ts';
import { incorrectParameters, queryText } from './query-text.ts';
import { listRefundsOperation } from './refund-operations.ts';
import { notFound, unknownYet } from './story-problems.ts';

/** What the route stands on. */
export type RefundListRouteParts = ListRefundsParts & {
  metrics: Pick<GatewayMetrics, 'lists'>;
  logger: Logger;
};

/** `GET /v1/payments/{id}/refunds`. */
export function addRefundListRoute(app: FastifyInstance, parts: RefundListRouteParts): void {
  const { metrics, logger } = parts;
  app.get<{ Params: { id: string } }>(
    '/v1/payments/:id/refunds',
    { schema: listRefundsOperation },
    async (request, reply) => {
      const { id: paymentId } = request.params;
      if (!isTxnId(paymentId)) throw notFound('payment');
      const query = queryOf(request.url);
      const { partnerId } = request;
      const outcome = await listRefunds(parts, { paymentId, partnerId, query }).catch(
        (error: unknown) => {
          logger.warn({ err: error, partnerId }, 'list failed');
          return { outcome: 'unavailable' } as const;
        },
      );
      metrics.lists.count(outcome.outcome);
      return answer(reply, outcome);
    },
  );
}

/** @throws Problem that points at every parameter that is wrong. */
function queryOf(target: string): RefundListQuery {
  const parsed = parseRefundListQuery(queryText(target));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  return parsed.query;
}

function answer(
  reply: FastifyReply,
  outcome: RefundPageOutcome | { outcome: 'unavailable' },
): FastifyReply {
  switch (outcome.outcome) {
    case 'page':
      return reply.code(200).type('application/json').send(outcome.body);
    case 'unknown-cursor': {
      const detail = 'expected the id of a refund of this payment that was listed before';
      throw incorrectParameters([{ pointer: '#/starting_after', detail }]);
    }
    case 'not-found':
      throw notFound('payment');
    case 'cold':
    case 'unavailable':
      throw unknownYet();
  }
}
