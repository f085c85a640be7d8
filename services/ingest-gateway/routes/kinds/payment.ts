import type { FastifySchema } from 'fastify';
import {
  acceptedResponse,
  acceptProblems,
  byId,
  foundResponse,
  idempotencyKeyHeader,
  preferHeader,
  readProblems,
} from '../schemas.ts';
import type { KindRoutes } from './kind.ts';

const createPayment: FastifySchema = {
  operationId: 'createPayment',
  summary: 'Accept a payment',
  description:
    'Takes effect once per key. Repeat it with the same key and body as often as you like: the ' +
    'answer is the same, byte for byte, with `Idempotency-Replayed: true`. What looks like the ' +
    'number of a payment card, or is named as its security code, is refused and not kept. With a ' +
    '`payment_method`, so is a currency that its provider does not charge in, an amount that its unit ' +
    'does not have (by card KWD takes multiples of 10, MGA of 100), and what it has no use for.',
  headers: idempotencyKeyHeader('payment'),
  body: { $ref: 'PaymentRequest#' },
  response: {
    202: acceptedResponse('payment'),
    ...acceptProblems(),
  },
};

const readPayment: FastifySchema = {
  operationId: 'readPayment',
  summary: 'Read a payment',
  description:
    'An accepted payment is there at once, `pending` until the ledger has settled it. While its customer has to act, `next_action` says what: send the customer to `redirect_to_url.url`, or give `client_secret` to the provider’s own code in the browser. Whoever has either can act for the customer, so keep them out of logs; an API key of scope `read` is shown `type` and `expires_at` alone.',
  params: byId,
  headers: preferHeader(
    'payment',
    ', or authorised and not captured or cancelled yet, or its customer comes to have something to do,',
  ),
  response: {
    200: foundResponse('payment'),
    ...readProblems,
  },
};

/** `POST /v1/payments` and `GET /v1/payments/{id}`. */
export const payment: KindRoutes = {
  create: { path: '/v1/payments', schema: createPayment },
  read: { path: '/v1/payments/:id', schema: readPayment },
};
