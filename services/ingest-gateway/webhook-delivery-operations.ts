import { txnIdSchema, webhookDeliveryListQuerySchema } from '@triplock/contracts';
import type { FastifySchema } from 'fastify';
import { problems } from './problem-responses.ts';

/** What the OpenAPI document says of `GET /v1/webhook-deliveries`. */
export const listDeliveriesOperation: FastifySchema = {
  operationId: 'listWebhookDeliveries',
  summary: 'List your webhook deliveries',
  description:
    'Newest first by `created_at`, then by `id`, both descending. Follow `has_more` with ' +
    '`starting_after` set to the last id of the page. `status` is a delivery’s `state` of the ' +
    'moment; the delivery of `starting_after` need not have it any more.',
  querystring: webhookDeliveryListQuerySchema,
  response: {
    200: {
      description: 'A page.',
      content: { 'application/json': { schema: { $ref: 'WebhookDeliveryList#' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'internal_error', 'unavailable'),
  },
};

/** What the OpenAPI document says of `POST /v1/webhook-deliveries/{id}/redeliver`. */
export const redeliverOperation: FastifySchema = {
  operationId: 'redeliverWebhook',
  summary: 'Send a webhook again',
  description:
    'Makes a delivery due now, delivered or given up before, under the same `webhook-id`, by which ' +
    'your receiver knows it. Attempts go on for another 24 hours. Needs no body and no ' +
    '`Idempotency-Key`: asking again while it is due or being sent changes nothing.',
  params: {
    type: 'object',
    required: ['id'],
    properties: { id: { ...txnIdSchema, description: 'the id of a delivery of yours' } },
  },
  response: {
    202: {
      description: 'Due; the delivery as it is now.',
      content: { 'application/json': { schema: { $ref: 'WebhookDelivery#' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'not_found', 'internal_error', 'unavailable'),
  },
};
