import { paymentListQuerySchema, txnIdSchema } from '@triplock/contracts';
import type { FastifySchema } from 'fastify';
import {
  acceptedResponse,
  acceptProblems,
  foundResponse,
  idempotencyKeyHeader,
  pageResponse,
  preferHeader,
} from './operation-parts.ts';
import { problems } from './problem-responses.ts';

/** What the OpenAPI document says of `POST /v1/payments`; give it to the route as its `schema`. */
export const createPaymentOperation: FastifySchema = {
  operationId: 'createPayment',
  summary: 'Accept a payment',
  description:
    'Takes effect once per key. Repeat it with the same key and body as often as you like: the ' +
    'answer is the same, byte for byte, with `Idempotency-Replayed: true`.',
  headers: idempotencyKeyHeader('payment'),
  body: { $ref: 'PaymentRequest#' },
  response: {
    202: acceptedResponse('payment'),
    ...acceptProblems(),
  },
};

/**
 * What the OpenAPI document says of `GET /v1/payments/{id}`; give it to the route as its `schema`.
 */
export const readPaymentOperation: FastifySchema = {
  operationId: 'readPayment',
  summary: 'Read a payment',
  description: 'An accepted payment is there at once, `pending` until the ledger has settled it.',
  params: { type: 'object', required: ['id'], properties: { id: txnIdSchema } },
  headers: preferHeader('payment'),
  response: {
    200: foundResponse('payment'),
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
    200: pageResponse('payment'),
    ...problems('invalid_request', 'unauthorized', 'internal_error', 'unavailable'),
  },
};
