import { refundListQuerySchema, txnIdSchema } from '@triplock/contracts';
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

const byId = { type: 'object', required: ['id'], properties: { id: txnIdSchema } };

/** What the OpenAPI document says of `POST /v1/payments/{id}/refunds`. */
export const createRefundOperation: FastifySchema = {
  operationId: 'createRefund',
  summary: 'Accept a refund',
  description:
    'Gives back a part of a payment, or with `{}` all that is left of it when the refund is posted. ' +
    'Takes effect once per key, as a payment does; the keys of refunds are apart from those of ' +
    'payments. A payment can be refunded right after its 202: the refund waits until it is final. ' +
    'Refunds never exceed their payment: one that does not fit ends `failed` with ' +
    '`amount_exceeds_refundable`, one of a payment that failed with `payment_not_refundable`.',
  params: byId,
  headers: idempotencyKeyHeader('refund'),
  body: { $ref: 'RefundRequest#' },
  response: {
    202: acceptedResponse('refund'),
    ...acceptProblems('not_found'),
  },
};

/** What the OpenAPI document says of `GET /v1/refunds/{id}`. */
export const readRefundOperation: FastifySchema = {
  operationId: 'readRefund',
  summary: 'Read a refund',
  description:
    'An accepted refund is there at once, `pending` until the money is given back or cannot be. ' +
    'Without an `amount` in the request it has one once it is posted.',
  params: byId,
  headers: preferHeader('refund'),
  response: {
    200: foundResponse('refund'),
    ...problems('invalid_request', 'unauthorized', 'not_found', 'internal_error', 'unavailable'),
  },
};

/** What the OpenAPI document says of `GET /v1/payments/{id}/refunds`. */
export const listRefundsOperation: FastifySchema = {
  operationId: 'listRefunds',
  summary: "List a payment's refunds",
  description:
    'Newest first by `created_at`, then by `id`, both descending, failed ones among them. It shows ' +
    'what the ledger has posted: a refund that was accepted a moment ago can be read by its id ' +
    'before it is listed. Follow `has_more` with `starting_after` set to the last id of the page.',
  params: byId,
  querystring: refundListQuerySchema,
  response: {
    200: pageResponse('refund'),
    ...problems('invalid_request', 'unauthorized', 'not_found', 'internal_error', 'unavailable'),
  },
};
