import { Problem, responseVersion, validatePaymentRequest } from '@triplock/contracts';
import {
  deriveTxnId,
  fingerprint,
  type AcceptedPayment,
  type JsonValue,
  type PartnerId,
  type TxnId,
} from '@triplock/payments';
import { traceparentFrom, type Logger } from '@triplock/runtime';
import type { FastifyInstance, FastifyReply, FastifyRequest, onResponseHookHandler } from 'fastify';
import { acceptPayment, type AcceptOutcome, type AcceptParts } from './accept-payment.ts';
import type { GatewayMetrics } from './metrics.ts';
import './http-types.ts';
import { createPaymentOperation } from './payment-operations.ts';
import { readIdempotencyKey } from './read-idempotency-key.ts';
import { inUse, maybeAccepted, reused } from './story-problems.ts';
import { startBudget } from './time-budget.ts';

/** What the route stands on. */
export type PaymentsRouteParts = AcceptParts & {
  metrics: GatewayMetrics;
  /** How long accepting may take before it is answered with a 503, milliseconds. */
  budgetMs: number;
};

const path = '/v1/payments';

/** `POST /v1/payments`: a request becomes a payment, and an outcome an answer. */
export function addPaymentsRoute(app: FastifyInstance, parts: PaymentsRouteParts): void {
  const { metrics, logger } = parts;
  const countRefusal: onResponseHookHandler = (_request, { statusCode }, done) => {
    if (isRefusal(statusCode)) metrics.payments.inc({ outcome: 'refused' });
    done();
  };
  const options = { schema: createPaymentOperation, onResponse: countRefusal };
  app.post(path, options, async (request, reply) => {
    const payment = paymentOf(request);
    const traceparent = traceparentFrom(request.headers.traceparent as string | undefined);
    const endTimer = metrics.acceptSeconds.startTimer();
    const budget = startBudget(parts.budgetMs);
    const outcome = await acceptPayment(parts, { payment, traceparent, budget });
    endTimer();
    metrics.payments.inc({ outcome: outcome.outcome });
    report(logger, outcome, { txnId: payment.txnId, partnerId: payment.partnerId, traceparent });
    return answer(reply, outcome);
  });
}

/**
 * An accepted payment is the rule: the counter counts it and the ledger keeps its id and its trace. A
 * line for each would be nearly all of the log.
 */
function report(logger: Logger, outcome: AcceptOutcome, payment: Bindings): void {
  const word = { ...payment, outcome: outcome.outcome };
  if (outcome.outcome === 'accepted') logger.debug(word, 'payment');
  else if (outcome.outcome === 'unavailable') {
    logger.warn({ ...word, err: outcome.error }, 'payment');
  } else logger.info(word, 'payment');
}

type Bindings = { txnId: TxnId; partnerId: PartnerId; traceparent: string };

/** @throws Problem when the key or the body is not one. */
function paymentOf(request: FastifyRequest): AcceptedPayment {
  const key = readIdempotencyKey(request);
  const validated = validatePaymentRequest(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') {
    const { errors } = validated;
    throw new Problem('invalid_request', 'Correct these fields and send it again.', { errors });
  }
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

/** Everything that ends before the story begins; 409 and 422 are outcomes of it. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 409 && status !== 422;
}

function answer(reply: FastifyReply, outcome: AcceptOutcome): FastifyReply {
  switch (outcome.outcome) {
    case 'accepted':
    case 'replayed': {
      const { status, location, body } = outcome.answer;
      if (outcome.outcome === 'replayed') reply.header('Idempotency-Replayed', 'true');
      return reply.code(status).header('Location', location).type('application/json').send(body);
    }
    case 'reused':
      throw reused();
    case 'in-flight':
      throw inUse();
    case 'cold':
    case 'unavailable':
      throw maybeAccepted();
  }
}
