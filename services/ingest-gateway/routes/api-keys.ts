import { Problem, validateNewApiKey } from '@triplock/contracts';
import { apiKeysMax, listedKeysMax, type KeyOrder, type ShownKey } from '@triplock/partners';
import { fingerprint, type JsonValue } from '@triplock/payments';
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { incorrectFields, queryText, reused, unauthorized } from '../http/problems.ts';
import { readKey, refuseBody, refuseCardData } from '../http/request-body.ts';
import { askStore } from '../http/turns.ts';
import type { PartnerRoutes } from './partner-routes.ts';
import { idempotencyKeyHeader, problems, replayedHeader } from './schemas.ts';

const always = ['invalid_request', 'unauthorized', 'internal_error', 'unavailable'] as const;

const listSchema: FastifySchema = {
  operationId: 'listApiKeys',
  summary: 'List your API keys',
  description:
    'Those that are good, the oldest first, then those that expired within the last 30 days, the ' +
    `last to expire first: ${listedKeysMax} at most, on one page. Of a key itself no more than its beginning is shown.`,
  response: {
    200: {
      description: 'The good ones, and those that expired lately.',
      content: { 'application/json': { schema: { $ref: 'ApiKeyList#' } } },
    },
    ...problems(...always),
  },
};

const makeSchema: FastifySchema = {
  operationId: 'createApiKey',
  summary: 'Make an API key',
  description:
    'Good at once, beside the others: to rotate a key make one, have your programs use it, and delete ' +
    'the old one once its `last_used_at` stands still. The answer alone shows it. When that is lost, ' +
    'send the same request with the same `Idempotency-Key` again: it shows the same key until that ' +
    'was used, for 24 hours at most.\n\nIt may expire within five years. Made with a key that expires ' +
    'it expires no later than that one, and with it where no `expires_at` is given.\n\n' +
    `You may have ${apiKeysMax} that are good. ` +
    'What you make, set and rotate is 200 within 24 hours at most, since each is kept on record.',
  headers: idempotencyKeyHeader('API key'),
  body: { $ref: 'ApiKeyCreation#' },
  response: {
    201: {
      description: 'Made, now or before, with its `key`.',
      headers: replayedHeader,
      content: { 'application/json': { schema: { $ref: 'PartnerKey#' } } },
    },
    ...problems(
      'idempotency_key_missing',
      'idempotency_key_invalid',
      ...always,
      'request_timeout',
      'body_too_large',
      'unsupported_media_type',
      'idempotency_key_reused',
    ),
  },
};

const deleteSchema: FastifySchema = {
  operationId: 'deleteApiKey',
  summary: 'Delete an API key',
  description:
    'It is refused everywhere within 5 seconds. You may delete the one that you ask with, but not ' +
    'your last key of scope `full` that is good for an hour or more: nobody but your operator could ' +
    'make another one.',
  params: {
    type: 'object',
    required: ['id'],
    properties: { id: { type: 'string', format: 'uuid', description: 'a key of yours' } },
  },
  response: {
    // A `null` is what the document shows as no content.
    204: { type: 'null', description: 'Deleted.' },
    ...problems(...always, 'not_found', 'last_full_key'),
  },
};

const path = '/v1/api-keys';

/** A partner's API keys: `GET` and `POST /v1/api-keys`, `DELETE /v1/api-keys/{id}`. */
export function addApiKeyRoutes(app: PartnerRoutes, gateway: Gateway): void {
  const { apiKeys, logger } = gateway;
  app.get(path, { schema: listSchema, scope: 'read' }, async (request, reply) => {
    if (queryText(request.url) !== '') throw unknownParameter();
    const { keys, hasMore } = await askStore(gateway, { request, what: 'listing API keys' }, () =>
      apiKeys.list(request.partnerId),
    );
    // Keys of one partner share the answer, but for which of them it is.
    const data = keys.map((key) => render(key, request.apiKeyId));
    const page = { object: 'list', data, has_more: hasMore };
    return reply.type('application/json').send(JSON.stringify(page));
  });
  addMakeRoute(app, gateway);

  const deleting = { schema: deleteSchema, scope: 'full' } as const;
  app.delete<{ Params: { id: string } }>(`${path}/:id`, deleting, async (request, reply) => {
    refuseBody(request);
    const { partnerId, apiKeyId: askedBy, params, id: requestId } = request;
    const id = keyIdOf(params.id);
    const outcome = await askStore(gateway, { request, what: 'deleting an API key' }, () =>
      apiKeys.delete({ partnerId, askedBy, id }),
    );
    logger.info({ partnerId, keyId: id, outcome, requestId }, 'API key to be deleted');
    switch (outcome) {
      case 'deleted':
        return reply.code(204).send();
      case 'no-such-key':
        throw noSuchKey();
      case 'last-full':
        throw new Problem(
          'last_full_key',
          'You have no other key of scope `full` that is good for an hour. Make one, and delete this ' +
            'with it.',
        );
      case 'not-allowed':
        throw unauthorized();
      default:
        return outcome satisfies never;
    }
  });
}

/** `POST /v1/api-keys`. Its claim is the key's row, whose id is made from the idempotency key. */
function addMakeRoute(app: PartnerRoutes, gateway: Gateway): void {
  app.post(path, { schema: makeSchema, scope: 'full' }, async (request, reply) => {
    const order = orderOf(request);
    const made = await askStore(gateway, { request, what: 'making an API key' }, () =>
      gateway.apiKeys.make(order),
    );
    const line = { partnerId: order.partnerId, outcome: made.outcome, requestId: request.id };
    gateway.logger.info(line, 'API key asked for');
    switch (made.outcome) {
      case 'replayed':
      case 'made': {
        if (made.outcome === 'replayed') reply.header('Idempotency-Replayed', 'true');
        const { scope, name } = order;
        const { id, createdAt, prefix, apiVersion, expiresAt, apiKey } = made;
        // As it was when it was made, whatever became of it: a replay has the same bytes.
        const times = { createdAt, expiresAt, lastUsedAt: null };
        const body = {
          ...render({ id, name, prefix, scope, apiVersion, ...times }),
          ...(apiKey !== undefined && { key: apiKey }),
        };
        reply.code(201).header('Cache-Control', 'no-store');
        return reply.type('application/json').send(JSON.stringify(body));
      }
      case 'reused':
        throw reused();
      case 'deleted':
        throw new Problem(
          'idempotency_key_reused',
          'The API key that this request made was deleted. Make another one with a new key.',
        );
      case 'too-many': {
        const detail = `expected at most ${apiKeysMax} good API keys: delete one first`;
        throw incorrectFields([{ pointer: '#', detail }]);
      }
      case 'wrong-expiry': {
        const detail = 'expected a time in the future, within five years';
        throw incorrectFields([{ pointer: '#/expires_at', detail }]);
      }
      case 'outlives': {
        const ends = made.at.toISOString();
        const detail = `expected a time until ${ends}, when the API key that you ask with expires`;
        throw incorrectFields([{ pointer: '#/expires_at', detail }]);
      }
      case 'not-allowed':
        throw unauthorized();
      default:
        return made satisfies never;
    }
  });
}

/** @throws Problem when the key or the body is not one. */
function orderOf(request: FastifyRequest): KeyOrder {
  const key = readKey(request);
  const validated = validateNewApiKey(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  const { asked, expiresAt, body } = validated;
  refuseCardData(request, body);
  return {
    partnerId: request.partnerId,
    askedBy: request.apiKeyId,
    key,
    fingerprint: fingerprint({ method: 'POST', path, body }),
    scope: asked.scope,
    name: asked.name ?? null,
    expiresAt: expiresAt ?? null,
  };
}

function render(key: ShownKey, askedBy?: string) {
  return {
    id: key.id,
    object: 'api_key',
    name: key.name,
    prefix: key.prefix,
    scope: key.scope,
    api_version: key.apiVersion,
    current: key.id === askedBy,
    created_at: key.createdAt.toISOString(),
    expires_at: key.expiresAt?.toISOString() ?? null,
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
  };
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** @throws Problem `not_found` for what can be no id. */
function keyIdOf(text: string): string {
  if (!uuid.test(text)) throw noSuchKey();
  return text;
}

/** Nothing there, or another partner's: 404. */
function noSuchKey(): Problem {
  return new Problem('not_found', 'There is no such API key.');
}

function unknownParameter(): Problem {
  return new Problem('invalid_request', 'Ask without a query.', {
    errors: [{ pointer: '#', detail: 'all keys are on one page' }],
  });
}
