import { pageSizeUsual, parseWebhookDeliveryListQuery, Problem } from '@triplock/contracts';
import type { DeliveryQuestion, ShownDelivery, WebhookDeliveries } from '@triplock/partners';
import { isTxnId, type EventId } from '@triplock/payments';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { askStore, type AskParts } from '../http/ask-store.ts';
import '../http/http-types.ts';
import { incorrectParameters, queryText } from '../http/incorrect-request.ts';
import { refuseBody } from '../http/refuse-body.ts';
import { listDeliveriesOperation, redeliverOperation } from './webhook-delivery-operations.ts';

/** What the routes stand on. */
export type WebhookDeliveriesParts = AskParts & { deliveries: WebhookDeliveries };

const path = '/v1/webhook-deliveries';

/** `GET /v1/webhook-deliveries` and `POST /v1/webhook-deliveries/{id}/redeliver`. */
export function addWebhookDeliveryRoutes(
  app: FastifyInstance,
  parts: WebhookDeliveriesParts,
): void {
  const { deliveries, logger } = parts;
  app.get(path, { schema: listDeliveriesOperation }, async (request, reply) => {
    const work = deliveries.list(questionOf(request));
    const page = await askStore(parts, { what: 'listing deliveries', work });
    if (page.outcome === 'unknown-cursor') {
      const detail = 'expected the id of a delivery of yours that was listed before';
      throw incorrectParameters([{ pointer: '#/starting_after', detail }]);
    }
    const data = page.deliveries.map(render);
    const body = JSON.stringify({ object: 'list', data, has_more: page.more });
    return reply.type('application/json').send(body);
  });

  const schema = redeliverOperation;
  app.post<{ Params: { id: string } }>(
    `${path}/:id/redeliver`,
    { schema },
    async (request, reply) => {
      const { partnerId, params } = request;
      refuseBody(request);
      const eventId = eventIdOf(params.id);
      const work = deliveries.redeliver({ partnerId, eventId });
      const delivery = await askStore(parts, { what: 'redelivering', work });
      if (delivery === undefined) throw noDelivery();
      logger.info({ partnerId, eventId, txnId: delivery.txnId }, 'webhook requested again');
      return reply
        .code(202)
        .type('application/json')
        .send(JSON.stringify(render(delivery)));
    },
  );
}

/** @throws Problem that points at every parameter that is wrong. */
function questionOf({ url, partnerId }: FastifyRequest): DeliveryQuestion {
  const parsed = parseWebhookDeliveryListQuery(queryText(url));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  const { limit = pageSizeUsual, starting_after: startingAfter, ...filter } = parsed.values;
  const { status: state, txn_id: txnId } = filter;
  return {
    partnerId,
    limit,
    ...(startingAfter === undefined ? {} : { startingAfter }),
    ...(state === undefined ? {} : { state }),
    ...(txnId === undefined ? {} : { txnId }),
  };
}

/** An event's id has the form of a transaction's. */
function eventIdOf(id: string): EventId {
  if (!isTxnId(id)) throw noDelivery();
  return id as string as EventId;
}

function render(delivery: ShownDelivery) {
  return {
    id: delivery.eventId,
    object: 'webhook_delivery',
    type: delivery.type,
    txn_id: delivery.txnId,
    status: delivery.state,
    attempts: delivery.attempts,
    last_status: delivery.lastStatus,
    last_error: delivery.lastError,
    created_at: delivery.createdAt.toISOString(),
    delivered_at: delivery.deliveredAt?.toISOString() ?? null,
    next_attempt_at: delivery.nextAttemptAt?.toISOString() ?? null,
  };
}

function noDelivery(): Problem {
  return new Problem('not_found', 'There is no such webhook delivery.');
}
