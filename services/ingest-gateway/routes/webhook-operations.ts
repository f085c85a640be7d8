import type { FastifySchema } from 'fastify';
import { idempotencyKeyHeader, replayedHeader } from './operation-parts.ts';
import { problems } from './problem-responses.ts';

/** What the OpenAPI document says of `GET /v1/webhook-endpoint`. */
export const readEndpointOperation: FastifySchema = {
  operationId: 'readWebhookEndpoint',
  summary: 'Read your webhook endpoint',
  response: {
    200: {
      description: 'The endpoint, without its secrets.',
      content: { 'application/json': { schema: { $ref: 'WebhookEndpoint#' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'not_found', 'internal_error', 'unavailable'),
  },
};

/** What the OpenAPI document says of `PUT /v1/webhook-endpoint`. */
export const setEndpointOperation: FastifySchema = {
  operationId: 'setWebhookEndpoint',
  summary: 'Set where your webhooks go',
  description:
    'Needs no `Idempotency-Key`: setting the same URL twice leaves it as it is. https on a public ' +
    'host name or address, on port 443 or from 1024 on, without user or password; a demo also ' +
    'sends to its own machine. The name is resolved and judged again at every attempt, and ' +
    'redirects are not followed. Deliveries that wait go to the new URL. A server that answers ' +
    '`410 Gone` wants no more webhooks: the endpoint is disabled (`disabled_at`), deliveries wait ' +
    'for their 24 hours as without an endpoint, and setting it again, to the same URL or another, ' +
    'enables it.',
  body: { $ref: 'WebhookEndpointRequest#' },
  response: {
    200: {
      description: 'Set; the secrets stay as they were.',
      content: { 'application/json': { schema: { $ref: 'WebhookEndpoint#' } } },
    },
    201: {
      description: 'Made, with a `secret` that is shown this once.',
      content: { 'application/json': { schema: { $ref: 'WebhookEndpoint#' } } },
    },
    ...problems(
      'invalid_request',
      'unauthorized',
      'request_timeout',
      'body_too_large',
      'unsupported_media_type',
      'internal_error',
      'unavailable',
    ),
  },
};

/** What the OpenAPI document says of `POST /v1/webhook-endpoint/secrets`. */
export const rotateSecretOperation: FastifySchema = {
  operationId: 'rotateWebhookSecret',
  summary: 'Rotate the secret that signs your webhooks',
  description:
    'Every webhook is then signed with the new secret and the one before it, for 24 hours or until ' +
    'the next rotation; at most two sign. Takes no body, and effect once per key: when an answer got ' +
    'lost, send the same key again and get the same secret. The last two keys are known; of older ' +
    'ones no secret signs any more.',
  headers: idempotencyKeyHeader('rotation'),
  response: {
    201: {
      description: 'The new secret, shown to this key alone.',
      headers: replayedHeader,
      content: { 'application/json': { schema: { $ref: 'WebhookSecret#' } } },
    },
    ...problems(
      'idempotency_key_missing',
      'idempotency_key_invalid',
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
