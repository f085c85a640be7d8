import { responseVersion, validatePaymentRequest, readIdempotencyKey } from '@triplock/contracts';
import { deriveTxnId, fingerprint, type AcceptedPayment, type JsonValue } from '@triplock/payments';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { addAcceptRoute, type AcceptRouteParts } from './accept-route.ts';
import { incorrectFields } from '../http/incorrect-request.ts';
import { acceptTransaction, type AcceptParts } from '../accept/accept-transaction.ts';
import type { GatewayMetrics } from '../http/metrics.ts';
import '../http/http-types.ts';
import { createPaymentOperation } from './payment-operations.ts';

/** What the route stands on. */
export type PaymentsRouteParts = AcceptParts<AcceptedPayment> &
  AcceptRouteParts & { metrics: Pick<GatewayMetrics, 'payments'> };

const path = '/v1/payments';

/**
 * `POST /v1/payments`. Nothing is written before {@link acceptTransaction}: a crash while the
 * request is read leaves nothing, and the retry counts as the first request. Id and fingerprint are
 * made from the request alone, so a retry at any replica meets what this one left.
 */
export function addPaymentsRoute(app: FastifyInstance, parts: PaymentsRouteParts): void {
  addAcceptRoute(app, parts, {
    path,
    schema: createPaymentOperation,
    what: 'payment',
    outcomes: parts.metrics.payments,
    transactionOf: paymentOf,
    accept: (order) => acceptTransaction(parts, order),
  });
}

/** @throws Problem when the key or the body is not valid. */
function paymentOf(request: FastifyRequest): AcceptedPayment {
  const key = readIdempotencyKey(request.raw.rawHeaders);
  const validated = validatePaymentRequest(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  const { partnerId } = request;
  return {
    txnId: deriveTxnId('payment', partnerId, key),
    partnerId,
    key,
    fingerprint: fingerprint({ method: 'POST', path, body: validated.body }),
    responseVersion,
    acceptedAt: new Date(),
    details: validated.details,
  };
}
