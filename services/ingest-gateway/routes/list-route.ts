import type { Logger } from '@triplock/runtime';
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import '../http/http-types.ts';
import { incorrectParameters } from '../http/incorrect-request.ts';
import type { RefundPageOutcome } from './list-refunds.ts';
import type { GatewayMetrics } from '../http/metrics.ts';
import { notFound, unknownYet } from '../http/story-problems.ts';

/** What such a route stands on. */
export type ListRouteParts = { metrics: Pick<GatewayMetrics, 'lists'>; logger: Logger };

/** A GET of a page of payments or refunds. */
export type ListRoute = {
  path: string;
  schema: FastifySchema;
  /** What a cursor has to be the id of. */
  cursorIs: string;
  /** @throws Problem when the request does not say what to list, or something that is not there. */
  list(request: FastifyRequest): Promise<RefundPageOutcome>;
};

/** Adds a route that lists, page by page; a store that does not answer is a 503. */
export function addListRoute(
  app: FastifyInstance,
  { metrics, logger }: ListRouteParts,
  { path, schema, cursorIs, list }: ListRoute,
): void {
  app.get(path, { schema }, async (request, reply) => {
    const { partnerId } = request;
    const page = list(request);
    const outcome = await page.catch((error: unknown) => {
      logger.warn({ err: error, partnerId }, 'list failed');
      return { outcome: 'unavailable' } as const;
    });
    metrics.lists.count(outcome.outcome);
    return answer(reply, outcome, cursorIs);
  });
}

function answer(
  reply: FastifyReply,
  outcome: RefundPageOutcome | { outcome: 'unavailable' },
  cursorIs: string,
): FastifyReply {
  switch (outcome.outcome) {
    case 'page':
      return reply.code(200).type('application/json').send(outcome.body);
    case 'unknown-cursor': {
      const detail = `expected the id of ${cursorIs} that was listed before`;
      throw incorrectParameters([{ pointer: '#/starting_after', detail }]);
    }
    case 'not-found':
      throw notFound('payment');
    case 'cold':
    case 'unavailable':
      throw unknownYet();
    default:
      return outcome satisfies never;
  }
}
