import type { FollowUpKind } from '@triplock/payments';
import type { FastifySchema } from 'fastify';
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
