import { responseVersion, validateRefundRequest, readIdempotencyKey } from '@triplock/contracts';
import {
  deriveTxnId,
  fingerprint,
  isTxnId,
  type AcceptedRefund,
  type JsonValue,
} from '@triplock/payments';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { acceptRefund, type AcceptRefundParts } from '../accept/accept-refund.ts';
import { addAcceptRoute, type AcceptRouteParts } from './accept-route.ts';
import { incorrectFields } from '../http/incorrect-request.ts';
import type { GatewayMetrics } from '../http/metrics.ts';
import '../http/http-types.ts';
import { createRefundOperation } from './refund-operations.ts';
import { notFound } from '../http/story-problems.ts';

/** What the route stands on. */
export type RefundsRouteParts = AcceptRefundParts &
  AcceptRouteParts & { metrics: Pick<GatewayMetrics, 'refunds'> };

/** `POST /v1/payments/{id}/refunds`. */
export function addRefundsRoute(app: FastifyInstance, parts: RefundsRouteParts): void {
  addAcceptRoute(app, parts, {
    path: '/v1/payments/:id/refunds',
    schema: createRefundOperation,
    what: 'refund',
    outcomes: parts.metrics.refunds,
    transactionOf: refundOf,
    accept: async (order) => {
      const outcome = await acceptRefund(parts, order);
      if (outcome.outcome === 'not-found') throw notFound('payment');
      return outcome;
    },
  });
}

/** @throws Problem when the path, the key or the body is not one. */
function refundOf(request: FastifyRequest): AcceptedRefund {
  const { id: paymentId } = request.params as { id: string };
  if (!isTxnId(paymentId)) throw notFound('payment');
  const key = readIdempotencyKey(request.raw.rawHeaders);
  const validated = validateRefundRequest(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  const { partnerId } = request;
  const path = `/v1/payments/${paymentId}/refunds`;
  return {
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
