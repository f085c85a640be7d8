import type { FastifySchema } from 'fastify';
import { byId, foundResponse, preferHeader, readProblems } from '../schemas.ts';
import { onPayment } from './follow-up.ts';
import type { KindRoutes } from './kind.ts';

const createRefund: FastifySchema = {
  operationId: 'createRefund',
  summary: 'Accept a refund',
  description:
    'Gives back a part of a payment, or with `{}` all that is left of it when the refund is posted. ' +
    'Takes effect once per key, as a payment does; the keys of refunds are apart from those of ' +
    'payments. A payment can be refunded right after its 202: the refund waits until it is final. ' +
    'Refunds never exceed their payment: one that does not fit ends `failed` with ' +
    '`amount_exceeds_refundable`, one of a payment that failed with `payment_not_refundable`.',
  ...onPayment('refund'),
  body: { $ref: 'RefundRequest#' },
};

const readRefund: FastifySchema = {
  operationId: 'readRefund',
  summary: 'Read a refund',
  description:
    'An accepted refund is there at once, `pending` until the money is given back or cannot be. ' +
    'Without an `amount` in the request it has one once it is posted.',
  params: byId,
  headers: preferHeader('refund'),
  response: {
    200: foundResponse('refund'),
    ...readProblems,
  },
};

/** `POST /v1/payments/{id}/refunds` and `GET /v1/refunds/{id}`. */
export const refund: KindRoutes = {
  create: { path: '/v1/payments/:id/refunds', schema: createRefund },
  read: { path: '/v1/refunds/:id', schema: readRefund },
};
