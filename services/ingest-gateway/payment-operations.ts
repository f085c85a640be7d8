import { paymentListQuerySchema, txnIdSchema } from '@triplock/contracts';
import type { FastifySchema } from 'fastify';
import { problems } from './problem-responses.ts';

/** What the OpenAPI document says of `POST /v1/payments`; give it to the route as its `schema`. */
export const createPaymentOperation: FastifySchema = {
  operationId: 'createPayment',
  summary: 'Accept a payment',
  description:
    'Takes effect once per key. Repeat it with the same key and body as often as you like: the ' +
    'answer is the same, byte for byte, with `Idempotency-Replayed: true`.',
  headers: {
    type: 'object',
    required: ['Idempotency-Key'],
    properties: {
      'Idempotency-Key': {
        type: 'string',
        description:
          'Names the payment, once per partner: 1 to 255 printable ASCII characters, bare or as a ' +
          'quoted structured-field string (both are the same key). Quote one that has a comma or ' +
          'a semicolon.',
      },
    },
  },
  body: { $ref: 'PaymentRequest#' },
  response: {
    202: {
      description: 'Accepted, now or before; the fields of the request as sent.',
      headers: {
        Location: { type: 'string', description: 'Where to read the payment.' },
        'Idempotency-Replayed': {
          type: 'string',
          enum: ['true'],
          description: 'Present when this answers a repeated request.',
        },
      },
      content: { 'application/json': { schema: { $ref: 'AcceptedPayment#' } } },
    },
    ...problems(
      'idempotency_key_missing',
      'idempotency_key_invalid',
      'invalid_request',
      'unauthorized',
      'request_timeout',
      'idempotency_key_in_use',
      'body_too_large',
      'unsupported_media_type',
      'idempotency_key_reused',
      'internal_error',
      'unavailable',
    ),
  },
};

/** What the OpenAPI document says of `GET /v1/payments/{id}`; give it to the route as its `schema`. */
export const readPaymentOperation: FastifySchema = {
  operationId: 'readPayment',
  summary: 'Read a payment',
  description: 'An accepted payment is there at once, `pending` until the ledger has settled it.',
  params: { type: 'object', required: ['id'], properties: { id: txnIdSchema } },
  headers: {
    type: 'object',
    properties: {
      Prefer: {
        type: 'string',
        description:
          '`wait=N` (RFC 7240, N up to 30 seconds) answers when the payment is final or N is over. ' +
          'A malformed or larger one is ignored.',
      },
    },
  },
  response: {
    200: {
      description: 'The payment.',
      headers: {
        'Preference-Applied': { type: 'string', description: 'The `wait` that was honoured.' },
      },
      content: { 'application/json': { schema: { $ref: 'Payment#' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'not_found', 'internal_error', 'unavailable'),
  },
};

/** What the OpenAPI document says of `GET /v1/payments`; give it to the route as its `schema`. */
export const listPaymentsOperation: FastifySchema = {
  operationId: 'listPayments',
  summary: 'List payments',
  description:
    'Newest first by `created_at`, then by `id`, both descending. It shows what the ledger has ' +
    'posted: a payment that was accepted a moment ago can be read by its id before it is listed. ' +
    'Follow `has_more` with `starting_after` set to the last id of the page: every payment that ' +
    'was posted when the first page was read comes once, and none comes twice. One that is posted ' +
    'meanwhile may come or not, and is there when the list is read again from its beginning. ' +
    '`status` is that of the moment; the payment of `starting_after` need not have it any more.',
  querystring: paymentListQuerySchema,
  response: {
    200: {
      description: 'A page.',
      content: {
        'application/json': {
          schema: {
            type: 'object',
            required: ['object', 'data', 'has_more'],
            properties: {
              object: { type: 'string', const: 'list' },
              data: { type: 'array', items: { $ref: 'Payment#' } },
              has_more: { type: 'boolean', description: 'whether there is a page behind this one' },
            },
            additionalProperties: false,
          },
        },
      },
    },
    ...problems('invalid_request', 'unauthorized', 'internal_error', 'unavailable'),
  },
};
