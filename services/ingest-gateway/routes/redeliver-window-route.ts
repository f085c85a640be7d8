import { redeliveredMax, validateRedeliveryRequest, readIdempotencyKey } from '@triplock/contracts';
import type { Redelivery, RedeliveryOrder, WebhookDeliveries } from '@triplock/partners';
import { fingerprint, type JsonValue } from '@triplock/payments';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { incorrectFields } from '../http/incorrect-request.ts';
import { askStore, type AskParts } from '../http/ask-store.ts';
import '../http/http-types.ts';
import { reused } from '../http/story-problems.ts';
import { redeliverWindowOperation } from './webhook-delivery-operations.ts';

/** What the route stands on. */
export type RedeliverWindowParts = AskParts & {
  deliveries: Pick<WebhookDeliveries, 'redeliverWindow'>;
};

const path = '/v1/webhook-deliveries/redeliver';

/**
 * `POST /v1/webhook-deliveries/redeliver`. Its claim is the act's own row: see `redeliver_window`.
 */
export function addRedeliverWindowRoute(app: FastifyInstance, parts: RedeliverWindowParts): void {
  const { deliveries, logger } = parts;
  app.post(path, { schema: redeliverWindowOperation }, async (request, reply) => {
    const order = orderOf(request);
    const work = deliveries.redeliverWindow(order);
    const done = await askStore(parts, { what: 'redelivering a window', work });
    const { partnerId } = request;
    logger.info({ partnerId, outcome: done.outcome }, 'webhooks of a window requested again');
    switch (done.outcome) {
      case 'redelivered':
      case 'replayed': {
        if (done.outcome === 'replayed') reply.header('Idempotency-Replayed', 'true');
        const body = JSON.stringify(render(done.redelivery));
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
  const key = readIdempotencyKey(request.raw.rawHeaders);
  const validated = validateRedeliveryRequest(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  const { since, until, status: state } = validated.asked;
  return {
    partnerId: request.partnerId,
    key,
    fingerprint: fingerprint({ method: 'POST', path, body: validated.body }),
    since,
    ...(until === undefined ? {} : { until }),
    ...(state === undefined ? {} : { state }),
    limit: redeliveredMax,
  };
}

function render({ since, until, state, deliveries, nextSince }: Redelivery) {
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
