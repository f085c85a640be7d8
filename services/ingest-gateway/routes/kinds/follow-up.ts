import { responseVersion, transactionContracts } from '@triplock/contracts';
import {
  deriveTxnId,
  fingerprint,
  isTxnId,
  type FollowUpKind,
  type JsonValue,
} from '@triplock/payments';
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { Transaction } from '../../accept/transaction.ts';
import { incorrectFields, notFound } from '../../http/problems.ts';
import { readKey, refuseCardData } from '../../http/request-body.ts';
import { acceptedResponse, acceptProblems, byId, idempotencyKeyHeader } from '../schemas.ts';

/** What every request about a payment says beside its operation. */
export function onPayment(kind: FollowUpKind): FastifySchema {
  return {
    params: byId,
    headers: idempotencyKeyHeader(kind),
    response: {
      202: acceptedResponse(kind),
      ...acceptProblems('not_found'),
    },
  };
}

/**
 * What a request about a payment asks for.
 *
 * @throws Problem when the path, the key or the body is not one, or could be a card's number.
 */
export function followUpOf(request: FastifyRequest, kind: FollowUpKind): Transaction {
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
