import { responseVersion, transactionContracts } from '@triplock/contracts';
import { deriveTxnId, fingerprint, type JsonValue, type PaymentKind } from '@triplock/payments';
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { Transaction } from '../../accept/transaction.ts';
import { incorrectFields } from '../../http/problems.ts';
import { readKey, refuseCardData } from '../../http/request-body.ts';
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
    '`payment_method`, so is a currency that the provider does not charge cards in, and an amount ' +
    'that its unit does not have (KWD takes multiples of 10, MGA of 100).',
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
    'An accepted payment is there at once, `pending` until the ledger has settled it. While its customer has to act, `next_action` says what: send the customer to `redirect_to_url.url`, or give `client_secret` to the provider’s own code in the browser. Whoever has either can act for the customer, so keep them out of logs.',
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
  transactionOf: (request) => paymentOf(request, 'payment'),
};

/**
 * What a request for a payment of some kind asks for.
 *
 * @throws Problem when the key or the body is not valid, or could be a card's number.
 */
export function paymentOf(request: FastifyRequest, kind: PaymentKind): Transaction {
  const key = readKey(request);
  const validated = transactionContracts[kind].validate(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  refuseCardData(request, validated.body);
  const { partnerId } = request;
  const path = `/v1/${kind}s`;
  return {
    kind,
    txnId: deriveTxnId(kind, partnerId, key),
    partnerId,
    key,
    fingerprint: fingerprint({ method: 'POST', path, body: validated.body }),
    responseVersion,
    acceptedAt: new Date(),
    details: validated.details,
  };
}
