import {
  kindSchema,
  parseBareIdempotencyKey,
  Problem,
  renderKeyStatus,
  type KeyStatus,
} from '@triplock/contracts';
import {
  deriveTxnId,
  transactionKinds,
  type IdempotencyKey,
  type TransactionKind,
  type TxnId,
} from '@triplock/payments';
import { startBudget } from '@triplock/runtime';
import type { FastifySchema } from 'fastify';
import { findKey, type KeyOutcome } from '../accept/find-key.ts';
import type { Gateway } from '../gateway.ts';
import { unknownYet } from '../http/problems.ts';
import { routesOfKinds } from './kinds.ts';
import type { PartnerRoutes } from './partner-routes.ts';
import { problems, retryAfterHeader } from './schemas.ts';

const readKey: FastifySchema = {
  operationId: 'readKey',
  summary: 'What became of a key',
  description:
    'Whether a request under this key was ever accepted: what to ask after a time-out, when ' +
    'sending it again is not what you want. Where nobody can know yet it is 503. What arrives ' +
    'after `as_of` may still be accepted, so stop sending before you ask.',
  params: {
    type: 'object',
    required: ['kind', 'key'],
    properties: {
      kind: kindSchema,
      key: {
        type: 'string',
        minLength: 1,
        maxLength: 255,
        pattern: '^[ -~]+$',
        description: 'The `Idempotency-Key` without quotes, percent-encoded.',
      },
    },
  },
  response: {
    200: {
      description: 'What became of it.',
      headers: {
        Location: { type: 'string', description: 'Where to read it; when `accepted`.' },
        ...retryAfterHeader,
      },
      content: { 'application/json': { schema: { $ref: 'KeyStatus#' } } },
    },
    ...problems(
      'idempotency_key_invalid',
      'invalid_request',
      'unauthorized',
      'internal_error',
      'unavailable',
    ),
  },
};

/** It looks in both stores, and may ask Kafka. */
const questionCost = { tokens: 2 };

/** `GET /v1/keys/{kind}/{key}`. */
export function addKeyRoutes(app: PartnerRoutes, gateway: Gateway): void {
  const { logger, budgetMs } = gateway;
  app.get<{ Params: { kind: string; key: string } }>(
    '/v1/keys/:kind/:key',
    { schema: readKey, scope: 'any', config: questionCost },
    async (request, reply) => {
      const { partnerId, id: requestId } = request;
      const kind = kindIn(request.params.kind);
      const key = keyIn(request.params.key);
      const txnId = deriveTxnId(kind, partnerId, key);
      const finding = findKey(
        gateway,
        { kind, txnId, partnerId, requestId },
        AbortSignal.timeout(budgetMs),
      );
      const found = await startBudget(budgetMs)
        .hold(finding, 'finding a key')
        .catch((error: unknown) => {
          logger.warn({ err: error, txnId, partnerId, requestId }, 'nobody knew of a key in time');
          return { outcome: 'cold' } as const;
        });
      const status = statusOf(found, { kind, key, id: txnId });
      if (found.outcome === 'accepted') {
        reply.header('Location', routesOfKinds[kind].read.path.replace(':id', txnId));
      }
      if (found.outcome === 'in-flight') {
        reply.header('Retry-After', Math.ceil(found.leaseLeftMs / 1_000));
      }
      reply.header('Cache-Control', 'no-store');
      return reply.type('application/json').send(JSON.stringify(renderKeyStatus(status)));
    },
  );
}

/** @throws Problem `unavailable` where nobody can know yet. */
function statusOf(
  found: KeyOutcome,
  { kind, key, id }: { kind: TransactionKind; key: IdempotencyKey; id: TxnId },
): KeyStatus {
  switch (found.outcome) {
    case 'accepted':
      return { kind, key, status: 'accepted', id };
    case 'in-flight':
      return { kind, key, status: 'in_flight' };
    case 'never-accepted':
      return { kind, key, status: 'never_accepted', asOf: found.asOf };
    case 'cold':
      throw unknownYet();
    default:
      return found satisfies never;
  }
}

/** @throws Problem `invalid_request`. */
function kindIn(text: string): TransactionKind {
  const kind = transactionKinds.find((each) => each === text);
  if (kind !== undefined) return kind;
  throw new Problem('invalid_request', `Name a kind of key: ${transactionKinds.join(', ')}.`);
}

/** @throws Problem `idempotency_key_invalid`. */
function keyIn(text: string): IdempotencyKey {
  const parsed = parseBareIdempotencyKey(text);
  if (parsed.outcome === 'key') return parsed.key;
  throw new Problem('idempotency_key_invalid', parsed.detail);
}
