import { responseVersion, transactionContracts } from '@triplock/contracts';
import {
  deriveTxnId,
  fingerprint,
  followUpKinds,
  isTxnId,
  type FollowUpKind,
  type JsonValue,
} from '@triplock/payments';
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
  params: byId,
  headers: idempotencyKeyHeader('capture'),
  body: { $ref: 'CaptureRequest#' },
  response: {
    202: acceptedResponse('capture'),
    ...acceptProblems('not_found'),
  },
};

const createCancellation: FastifySchema = {
  operationId: 'createCancellation',
  summary: 'Accept a cancellation',
  description:
    'Lets go of the money of a payment of `capture_method: manual` that was not captured; the ' +
    'payment then ends `canceled`. Takes effect once per key; a cancellation right after the 202 of ' +
    'its payment waits until that is authorised. Of a capture and a cancellation at once the first ' +
    'counts, and the other ends `failed`: with `payment_already_captured`, or `payment_canceled`.',
  params: byId,
  headers: idempotencyKeyHeader('cancellation'),
  body: { $ref: 'CancellationRequest#' },
  response: {
    202: acceptedResponse('cancellation'),
    ...acceptProblems('not_found'),
  },
};

const readFollowUp = (kind: 'capture' | 'cancellation'): FastifySchema => ({
  operationId: kind === 'capture' ? 'readCapture' : 'readCancellation',
  summary: `Read a ${kind}`,
  description: `An accepted ${kind} is there at once, \`pending\` until the provider has carried it out or cannot.`,
  params: byId,
  headers: preferHeader(kind),
  response: {
    200: foundResponse(kind),
    ...problems('invalid_request', 'unauthorized', 'not_found', 'internal_error', 'unavailable'),
  },
});

const operations = {
  refund: { create: createRefund, read: readRefund },
  capture: { create: createCapture, read: readFollowUp('capture') },
  cancellation: { create: createCancellation, read: readFollowUp('cancellation') },
} as const satisfies Record<FollowUpKind, object>;

/**
 * What follows a payment: `POST /v1/payments/{id}/refunds` and `GET /v1/refunds/{id}`, and the same
 * of captures and cancellations.
 */
export function addFollowUpRoutes(
  app: FastifyInstance,
  gateway: Gateway,
  read: ReadTransaction,
): void {
  for (const kind of followUpKinds) {
    const schemas = operations[kind];
    app.post(
      `/v1/payments/:id/${kind}s`,
      { schema: schemas.create, ...guardAccepting(gateway, kind) },
      async (request, reply) => create(gateway, followUpOf(request, kind), reply),
    );
    app.get(`/v1/${kind}s/:id`, { schema: schemas.read }, (_, reply) => read(kind, reply));
  }
}

/** @throws Problem when the path, the key or the body is not one, or could be a card's number. */
function followUpOf(request: FastifyRequest, kind: FollowUpKind): Transaction {
  const { id: paymentId } = request.params as { id: string };
  if (!isTxnId(paymentId)) throw notFound('payment');
  const key = readKey(request);
  const validated = transactionContracts[kind].validate(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  refuseCardData(request, validated.body);
  const { partnerId } = request;
  const path = `/v1/payments/${paymentId}/${kind}s`;
  return {
    kind,
    txnId: deriveTxnId(kind, partnerId, key),
    partnerId,
    key,
    fingerprint: fingerprint({ method: 'POST', path, body: validated.body }),
    responseVersion,
    acceptedAt: new Date(),
    paymentId,
    details: validated.details,
  };
}
