import type { IdempotencyKey } from '@triplock/payments';
import type { FastifyRequest } from 'fastify';

/** The request's idempotency key. @throws Problem `idempotency_key_missing` or `_invalid`. */
export function readIdempotencyKey(_request: FastifyRequest): IdempotencyKey {
  throw new Error('not built');
}
