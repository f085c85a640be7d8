import type { FastifySchema } from 'fastify';
import { byId, foundResponse, preferHeader, readProblems } from '../schemas.ts';
import { onPayment } from './follow-up.ts';
import type { KindRoutes } from './kind.ts';

const createCancellation: FastifySchema = {
  operationId: 'createCancellation',
  summary: 'Accept a cancellation',
  description:
    'Lets go of the money of a payment of `capture_method: manual` that was not captured; the ' +
    'payment then ends `canceled`. Takes effect once per key; a cancellation right after the 202 of ' +
    'its payment waits until that is authorised. Of a capture and a cancellation at once the first ' +
    'counts, and the other ends `failed`: with `payment_already_captured`, or `payment_canceled`.',
  ...onPayment('cancellation'),
  body: { $ref: 'CancellationRequest#' },
};

const readCancellation: FastifySchema = {
  operationId: 'readCancellation',
  summary: 'Read a cancellation',
  description:
    'An accepted cancellation is there at once, `pending` until the provider has carried it out or cannot.',
  params: byId,
  headers: preferHeader('cancellation'),
  response: {
    200: foundResponse('cancellation'),
    ...readProblems,
  },
};

/** `POST /v1/payments/{id}/cancellations` and `GET /v1/cancellations/{id}`. */
export const cancellation: KindRoutes = {
  create: { path: '/v1/payments/:id/cancellations', schema: createCancellation },
  read: { path: '/v1/cancellations/:id', schema: readCancellation },
};
