import { responseVersion, validateRefundRequest } from '@triplock/contracts';
import { deriveTxnId, fingerprint, isTxnId, type JsonValue } from '@triplock/payments';
import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import type { Transaction } from '../accept/transaction.ts';
import type { Gateway } from '../gateway.ts';
import { incorrectFields, notFound } from '../http/problems.ts';
import { readKey, refuseCardData } from '../http/request-body.ts';
import { create, guardAccepting } from './create-transactions.ts';
import { byId, type ReadTransaction } from './read-transactions.ts';
import {
  acceptedResponse,
  acceptProblems,
  foundResponse,
  idempotencyKeyHeader,
  preferHeader,
  problems,
} from './schemas.ts';

const createRefund: FastifySchema = {
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
    ...problems('invalid_request', 'unauthorized', 'not_found', 'internal_error', 'unavailable'),
  },
};

/** `POST /v1/payments/{id}/refunds` and `GET /v1/refunds/{id}`. */
export function addRefundRoutes(
  app: FastifyInstance,
  gateway: Gateway,
  read: ReadTransaction,
): void {
  app.post(
    '/v1/payments/:id/refunds',
    { schema: createRefund, ...guardAccepting(gateway, 'refund') },
    async (request, reply) => create(gateway, refundOf(request), reply),
  );
  app.get('/v1/refunds/:id', { schema: readRefund }, (_, reply) => read('refund', reply));
}

/** @throws Problem when the path, the key or the body is not one, or could be a card's number. */
function refundOf(request: FastifyRequest): Transaction {
  const { id: paymentId } = request.params as { id: string };
  if (!isTxnId(paymentId)) throw notFound('payment');
  const key = readKey(request);
  const validated = validateRefundRequest(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  refuseCardData(request, validated.body);
  const { partnerId } = request;
  const path = `/v1/payments/${paymentId}/refunds`;
  return {
    kind: 'refund',
    txnId: deriveTxnId('refund', partnerId, key),
    partnerId,
    key,
    fingerprint: fingerprint({ method: 'POST', path, body: validated.body }),
    responseVersion,
    acceptedAt: new Date(),
    paymentId,
    details: validated.details,
  };
}
