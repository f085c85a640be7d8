import {
  deliveryIdSchema,
  pageSizeUsual,
  parseDeliveryId,
  parseWebhookDeliveryListQuery,
  Problem,
  redeliveredMax,
  renderDeliveryId,
  validateRedeliveryRequest,
  webhookDeliveryListQuerySchema,
} from '@triplock/contracts';
import type {
  DeliveryId,
  DeliveryQuestion,
  Redelivery,
  RedeliveryOrder,
  ShownDelivery,
} from '@triplock/partners';
import { fingerprint, type JsonValue } from '@triplock/payments';
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { Gateway } from '../gateway.ts';
import {
  incorrectFields,
  incorrectParameters,
  queryText,
  reused,
  unknownCursor,
} from '../http/problems.ts';
import { refuseBody, readKey } from '../http/request-body.ts';
import { askStore } from '../http/turns.ts';
import type { PartnerRoutes } from './partner-routes.ts';
import { idempotencyKeyHeader, problems, replayedHeader } from './schemas.ts';

const listDeliveriesSchema: FastifySchema = {
  operationId: 'listWebhookDeliveries',
  summary: 'List your webhook deliveries',
  description:
    'Newest first by `created_at`, then by `id`, both descending. Follow `has_more` with ' +
    '`starting_after` set to the last id of the page. `status` is that of the ' +
    'moment; the delivery of `starting_after` need not have it any more. `txn_id` shows those ' +
    'of one payment or refund.',
  querystring: webhookDeliveryListQuerySchema,
  response: {
    200: {
      description: 'A page.',
      content: { 'application/json': { schema: { $ref: 'WebhookDeliveryList#' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'internal_error', 'unavailable'),
  },
};

const redeliverSchema: FastifySchema = {
  operationId: 'redeliverWebhook',
  summary: 'Send a webhook again',
  description:
    'Makes a delivery due now, delivered or given up before, under the same `webhook-id`, by which ' +
    'your receiver knows it. Attempts go on for another 24 hours. Needs no body and no ' +
    '`Idempotency-Key`: asking again while it is due or being sent changes nothing, nor does asking ' +
    'for one whose endpoint was deleted.',
  params: {
    type: 'object',
    required: ['id'],
    properties: { id: deliveryIdSchema },
  },
  response: {
    202: {
      description: 'Due; the delivery as it is now.',
      content: { 'application/json': { schema: { $ref: 'WebhookDelivery#' } } },
    },
    ...problems(
      'invalid_request',
      'unauthorized',
      'not_found',
      'request_timeout',
      'body_too_large',
      'unsupported_media_type',
      'internal_error',
      'unavailable',
    ),
  },
};

const redeliverWindowSchema: FastifySchema = {
  operationId: 'redeliverWebhooks',
  summary: 'Send the webhooks of a window again',
  description:
    'For a receiver that lost some; of an endpoint that failed, from a day before its ' +
    '`failing_since`: makes your deliveries whose `created_at` is at `since` or after it and before `until` (or now) due again, as redelivering one does, each under the same ' +
    '`webhook-id`. `status` takes only those with that status; one that is being sent is left to it. ' +
    'The window is 31 days at most, and webhooks have left that were delivered or given up more than ' +
    `90 days ago. Takes the oldest ${redeliveredMax.toLocaleString('en')}, and what was made at the same ` +
    'moment as the last of them; when `has_more` is true, go on from `next_since` with a new key. ' +
    'Takes effect once per key, which is remembered for 90 days; its keys are apart from those of ' +
    'payments and refunds. You may ask for 1 000 windows within 24 hours.',
  headers: idempotencyKeyHeader('redelivery'),
  body: { $ref: 'WebhookRedeliveryRequest#' },
  response: {
    202: {
      description: 'Due, now or when this request first came.',
      headers: replayedHeader,
      content: { 'application/json': { schema: { $ref: 'WebhookRedelivery#' } } },
    },
    ...problems(
      'idempotency_key_missing',
      'idempotency_key_invalid',
      'invalid_request',
      'unauthorized',
      'request_timeout',
      'body_too_large',
      'unsupported_media_type',
      'idempotency_key_reused',
      'internal_error',
      'unavailable',
    ),
  },
};

const path = '/v1/webhook-deliveries';

/**
 * `GET /v1/webhook-deliveries`, `POST /v1/webhook-deliveries/{id}/redeliver` and
 * `POST /v1/webhook-deliveries/redeliver`.
 */
export function addWebhookDeliveryRoutes(app: PartnerRoutes, gateway: Gateway): void {
  const { deliveries, logger } = gateway;
  app.get(path, { schema: listDeliveriesSchema, scope: 'read' }, async (request, reply) => {
    const question = questionOf(request);
    const page = await askStore(gateway, { request, what: 'listing deliveries' }, () =>
      deliveries.list(question),
    );
    if (page.outcome === 'unknown-cursor') throw unknownCursor('a delivery of yours');
    const data = page.deliveries.map(render);
    const body = JSON.stringify({ object: 'list', data, has_more: page.more });
    return reply.type('application/json').send(body);
  });

  app.post<{ Params: { id: string } }>(
    `${path}/:id/redeliver`,
    { schema: redeliverSchema, scope: 'full' },
    async (request, reply) => {
      const { partnerId, params, id: requestId } = request;
      refuseBody(request);
      const id = deliveryIdOf(params.id);
      const delivery = await askStore(gateway, { request, what: 'redelivering' }, () =>
        deliveries.redeliver({ partnerId, ...id }),
      );
      if (delivery === undefined) throw noDelivery();
      const line = { partnerId, ...id, txnId: delivery.txnId, requestId };
      logger.info(line, 'webhook requested again');
      return reply
        .code(202)
        .type('application/json')
        .send(JSON.stringify(render(delivery)));
    },
  );
  addRedeliverWindowRoute(app, gateway);
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
    ...(startingAfter === undefined ? {} : { startingAfter: deliveryIdOf(startingAfter) }),
    ...(state === undefined ? {} : { state }),
    ...(txnId === undefined ? {} : { txnId }),
  };
}

/** @throws Problem `not_found` for what can be no id of a delivery. */
function deliveryIdOf(text: string): DeliveryId {
  const id = parseDeliveryId(text);
  if (id === undefined) throw noDelivery();
  return id;
}

function render(delivery: ShownDelivery) {
  return {
    id: renderDeliveryId(delivery),
    object: 'webhook_delivery',
    webhook_id: delivery.eventId,
    endpoint: delivery.endpointId,
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

// A window locks and looks through the partner's deliveries, which costs the database as much as
// ten payments.
const windowCost = { tokens: 10 };

/**
 * `POST /v1/webhook-deliveries/redeliver`. Its claim is the act's own row: see `redeliver_window`.
 */
function addRedeliverWindowRoute(app: PartnerRoutes, gateway: Gateway): void {
  const { deliveries, logger } = gateway;
  const options = { schema: redeliverWindowSchema, scope: 'full', config: windowCost } as const;
  app.post(`${path}/redeliver`, options, async (request, reply) => {
    const order = orderOf(request);
    const { partnerId, id: requestId } = request;
    const done = await askStore(gateway, { request, what: 'redelivering a window' }, () =>
      deliveries.redeliverWindow(order),
    );
    logger.info(
      { partnerId, outcome: done.outcome, requestId },
      'webhooks of a window requested again',
    );
    switch (done.outcome) {
      case 'redelivered':
      case 'replayed': {
        if (done.outcome === 'replayed') reply.header('Idempotency-Replayed', 'true');
        const body = JSON.stringify(renderRedelivery(done.redelivery));
        return reply.code(202).type('application/json').send(body);
      }
      case 'reused':
        throw reused();
      case 'empty-window': {
        const pointer = order.until === undefined ? '#/since' : '#/until';
        const detail = 'expected a window that begins before it ends; without `until` it ends now';
        throw incorrectFields([{ pointer, detail }]);
      }
      case 'wide-window': {
        const detail = 'expected at most 31 days until `until`, or until now without it';
        throw incorrectFields([{ pointer: '#/since', detail }]);
      }
      default:
        return done satisfies never;
    }
  });
}

/** @throws Problem when the key or the body is not one. */
function orderOf(request: FastifyRequest): RedeliveryOrder {
  const key = readKey(request);
  const validated = validateRedeliveryRequest(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  const { since, until, status: state } = validated.asked;
  return {
    partnerId: request.partnerId,
    key,
    fingerprint: fingerprint({ method: 'POST', path: `${path}/redeliver`, body: validated.body }),
    since,
    ...(until === undefined ? {} : { until }),
    ...(state === undefined ? {} : { state }),
    limit: redeliveredMax,
  };
}

function renderRedelivery({ since, until, state, deliveries, nextSince }: Redelivery) {
  return {
    object: 'webhook_redelivery',
    since,
    until,
    status: state,
    deliveries,
    has_more: nextSince !== null,
    next_since: nextSince,
  };
}
