import { redeliveredMax, txnIdSchema, webhookDeliveryListQuerySchema } from '@triplock/contracts';
import type { FastifySchema } from 'fastify';
import { idempotencyKeyHeader, replayedHeader } from './operation-parts.ts';
import { problems } from './problem-responses.ts';

/** What the OpenAPI document says of `GET /v1/webhook-deliveries`. */
export const listDeliveriesOperation: FastifySchema = {
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

/** What the OpenAPI document says of `POST /v1/webhook-deliveries/redeliver`. */
export const redeliverWindowOperation: FastifySchema = {
  operationId: 'redeliverWebhooks',
  summary: 'Send the webhooks of a window again',
  description:
    'For a receiver that lost some: makes your deliveries whose `created_at` is at `since` or after ' +
    'it and before `until` (or now) due again, as redelivering one does, each under the same ' +
    '`webhook-id`. `status` takes only those with that status; one that is being sent is left to it. ' +
    'The window is 31 days at most, and webhooks that were delivered more than 30 days ago have ' +
    `left. Takes the oldest ${redeliveredMax.toLocaleString('en')}, and what was made at the same ` +
    'moment as the last of them; when `has_more` is true, go on from `next_since` with a new key. ' +
    'Takes effect once per key, which is remembered for good; its keys are apart from those of ' +
    'payments and refunds.',
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
