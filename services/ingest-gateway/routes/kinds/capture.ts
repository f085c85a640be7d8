import type { FastifySchema } from 'fastify';
import { byId, foundResponse, preferHeader, readProblems } from '../schemas.ts';
import { onPayment } from './follow-up.ts';
import type { KindRoutes } from './kind.ts';

const createCapture: FastifySchema = {
  operationId: 'createCapture',
  summary: 'Accept a capture',
  description:
    'Takes the money of a payment of `capture_method: manual`, or with `amount` a part of it: the rest ' +
    'is let go. A payment is captured once, and then ends `captured`. Takes effect once per key; a ' +
    'capture right after the 202 of its payment waits until that is authorised. More than was ' +
    'authorised ends `failed` with `amount_exceeds_authorized`; a second one with ' +
    '`payment_already_captured`; one after the end with `payment_canceled` or ' +
    '`authorization_expired`; one of any other payment with `payment_not_authorized`.',
  ...onPayment('capture'),
  body: { $ref: 'CaptureRequest#' },
};

const readCapture: FastifySchema = {
  operationId: 'readCapture',
  summary: 'Read a capture',
  description:
    'An accepted capture is there at once, `pending` until the provider has carried it out or cannot.',
  params: byId,
  headers: preferHeader('capture'),
  response: {
    200: foundResponse('capture'),
    ...readProblems,
  },
};

/** `POST /v1/payments/{id}/captures` and `GET /v1/captures/{id}`. */
export const capture: KindRoutes = {
  create: { path: '/v1/payments/:id/captures', schema: createCapture },
  read: { path: '/v1/captures/:id', schema: readCapture },
};
