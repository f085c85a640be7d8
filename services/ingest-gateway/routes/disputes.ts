import { disputeListQuerySchema, parseDisputeListQuery, renderDispute } from '@triplock/contracts';
import { isDisputeId } from '@triplock/payments';
import { startBudget } from '@triplock/runtime';
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { incorrectParameters, notFound, queryText, unknownYet } from '../http/problems.ts';
import { list, pageCost, pageOf, type PageOutcome } from './list-transactions.ts';
import type { PartnerRoutes } from './partner-routes.ts';
import { byId, pageResponse, problems, readProblems } from './schemas.ts';

const whatOneIs =
  'What the customer of a payment wants back from the bank. The payment stays as it is, and so do ' +
  'settlements and balance. `payment.disputed` tells of each, with the id that it has at the ' +
  'provider; of its end no event tells: read it here.';

const listDisputes: FastifySchema = {
  operationId: 'listDisputes',
  summary: 'List disputes',
  description:
    `${whatOneIs} Newest first by \`created_at\`, then by \`id\`, both descending. Follow it with ` +
    '`starting_after` set to the last id of the page. `status` is that of the moment.',
  querystring: disputeListQuerySchema,
  response: {
    200: pageResponse('dispute'),
    ...problems('invalid_request', 'unauthorized', 'internal_error', 'unavailable'),
  },
};

const readDispute: FastifySchema = {
  operationId: 'readDispute',
  summary: 'Read a dispute',
  description: whatOneIs,
  params: byId,
  response: {
    200: {
      description: 'The dispute.',
      content: { 'application/json': { schema: { $ref: 'Dispute#' } } },
    },
    ...readProblems,
  },
};

/** `GET /v1/disputes` and `GET /v1/disputes/{id}`: what the ledger has noted. */
export function addDisputeRoutes(app: PartnerRoutes, gateway: Gateway): void {
  const options = { schema: listDisputes, scope: 'any', config: pageCost } as const;
  app.get('/v1/disputes', options, (request, reply) =>
    list(gateway, reply, {
      page: () => disputesOf(gateway, request),
      cursorIs: 'a dispute of yours',
    }),
  );
  app.get<{ Params: { id: string } }>(
    '/v1/disputes/:id',
    { schema: readDispute, scope: 'any' },
    async (request, reply) => {
      const dispute = await findDispute(gateway, request);
      if (dispute === undefined) throw notFound('dispute');
      reply.header('Cache-Control', 'no-store');
      return reply.type('application/json').send(JSON.stringify(renderDispute(dispute)));
    },
  );
}

/** @throws Problem that points at every parameter that is wrong. */
async function disputesOf({ ledger }: Gateway, request: FastifyRequest): Promise<PageOutcome> {
  const { partnerId, url } = request;
  const parsed = parseDisputeListQuery(queryText(url));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  const { startingAfter: after, payment: paymentId, ...wishes } = parsed.query;
  const listed = await ledger.listDisputes({ partnerId, after, paymentId, ...wishes });
  if (listed.outcome === 'unknown-cursor') return listed;
  return pageOf(listed.disputes.map(renderDispute), listed.hasMore);
}

/** @throws Problem `unavailable` when the ledger does not answer in time. */
function findDispute(
  { ledger, logger, budgetMs }: Gateway,
  { params: { id }, partnerId, id: requestId }: FastifyRequest<{ Params: { id: string } }>,
) {
  if (!isDisputeId(id)) return undefined;
  const finding = ledger.findDispute({ id, partnerId });
  return startBudget(budgetMs)
    .hold(finding, 'reading')
    .catch((err: unknown) => {
      logger.warn({ err, disputeId: id, partnerId, requestId }, 'a dispute could not be read');
      throw unknownYet();
    });
}
