import { Problem, validateWebhookEndpoint } from '@triplock/contracts';
import { targetRefusal, type ShownEndpoint, type TargetPolicy } from '@triplock/partners';
import type { JsonValue } from '@triplock/payments';
import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { askStore, incorrectFields } from '../http/problems.ts';
import { refuseBody } from '../http/request-body.ts';
import { readKey } from '../http/request-body.ts';
import { idempotencyKeyHeader, problems, replayedHeader } from './schemas.ts';

const readEndpoint: FastifySchema = {
  operationId: 'readWebhookEndpoint',
  summary: 'Read your webhook endpoint',
  response: {
    200: {
      description: 'The endpoint, without its secrets.',
      content: { 'application/json': { schema: { $ref: 'WebhookEndpoint#' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'not_found', 'internal_error', 'unavailable'),
  },
};

const setEndpoint: FastifySchema = {
  operationId: 'setWebhookEndpoint',
  summary: 'Set where your webhooks go',
  description:
    'Needs no `Idempotency-Key`: setting the same URL twice leaves it as it is. https on a public ' +
    'host name or address, on port 443 or from 1024 on, without user or password; a demo also ' +
    'sends to its own machine. The name is resolved and judged again at every attempt, and ' +
    'redirects are not followed. Deliveries that wait go to the new URL. A server that answers ' +
    '`410 Gone` wants no more webhooks: the endpoint is disabled (`disabled_at`), as good as none.\n\n' +
    'A URL gets webhooks once its server has shown that it wants them (`status`): within seconds it ' +
    'is sent `{ "type": "endpoint.verification", "timestamp": "…", "data": { "token": "…" } }`, ' +
    'signed as every webhook. Verify the signature, and answer within 10 seconds with a 2xx whose ' +
    'body is `{ "token": "…" }` or the token as text, and nothing else, in at most 4 KiB. Another ' +
    'answer, a redirect too, counts as none; it is asked again, each time with another token, after ' +
    'pauses from 30 seconds to an hour for about a day, and anew whenever you set the endpoint, ' +
    'which may be the same URL. A demo asks nobody.\n\n' +
    'Without a verified endpoint nothing is tried: deliveries are `parked` for up to 90 days, and ' +
    'within seconds after it is verified they are sent, with 24 hours of attempts before them. ' +
    'Webhooks have a rate per partner and per host of the URL; what is beyond it comes later.',
  body: { $ref: 'WebhookEndpointRequest#' },
  response: {
    200: {
      description: 'Set; the secrets stay as they were.',
      content: { 'application/json': { schema: { $ref: 'WebhookEndpoint#' } } },
    },
    201: {
      description: 'Made, with a `secret` that is shown this once.',
      content: { 'application/json': { schema: { $ref: 'WebhookEndpoint#' } } },
    },
    ...problems(
      'invalid_request',
      'unauthorized',
      'request_timeout',
      'body_too_large',
      'unsupported_media_type',
      'internal_error',
      'unavailable',
    ),
  },
};

const rotateSecret: FastifySchema = {
  operationId: 'rotateWebhookSecret',
  summary: 'Rotate the secret that signs your webhooks',
  description:
    'Every webhook is then signed with the new secret and the one before it, for 24 hours or until ' +
    'the next rotation; at most two sign. Takes no body, and effect once per key: when an answer got ' +
    'lost, send the same key again and get the same secret. The last two keys are known; of older ' +
    'ones no secret signs any more.',
  headers: idempotencyKeyHeader('rotation'),
  response: {
    201: {
      description: 'The new secret, shown to this key alone.',
      headers: replayedHeader,
      content: { 'application/json': { schema: { $ref: 'WebhookSecret#' } } },
    },
    ...problems(
      'idempotency_key_missing',
      'idempotency_key_invalid',
      'invalid_request',
      'unauthorized',
      'not_found',
      'request_timeout',
      'body_too_large',
      'unsupported_media_type',
      'internal_error',
      'unavailable',
    ),
  },
};

const path = '/v1/webhook-endpoint';

/** `GET` and `PUT /v1/webhook-endpoint`, and `POST /v1/webhook-endpoint/secrets`. */
export function addWebhookEndpointRoutes(app: FastifyInstance, gateway: Gateway): void {
  const { endpoints, logger } = gateway;
  app.get(path, { schema: readEndpoint }, async ({ partnerId, id: requestId }, reply) => {
    const work = endpoints.show(partnerId);
    const endpoint = await askStore(gateway, { requestId, what: 'reading an endpoint', work });
    if (endpoint === undefined) throw noEndpoint();
    return reply.type('application/json').send(JSON.stringify(render(endpoint)));
  });

  app.put(path, { schema: setEndpoint }, async (request, reply) => {
    const { partnerId, id: requestId } = request;
    const url = urlOf(request, gateway.targetPolicy);
    const work = endpoints.setUrl({ partnerId, url });
    const set = await askStore(gateway, { requestId, what: 'setting an endpoint', work });
    logger.info({ partnerId, outcome: set.outcome, requestId }, 'webhook endpoint set');
    const body = JSON.stringify({
      ...render(set.endpoint),
      ...(set.outcome === 'made' ? { secret: set.secret } : {}),
    });
    reply.code(set.outcome === 'made' ? 201 : 200).header('Cache-Control', 'no-store');
    return reply.type('application/json').send(body);
  });

  app.post(`${path}/secrets`, { schema: rotateSecret }, async (request, reply) => {
    const { partnerId, id: requestId } = request;
    refuseBody(request);
    const key = readKey(request);
    const work = endpoints.rotateSecret({ partnerId, key });
    const rotated = await askStore(gateway, { requestId, what: 'rotating a secret', work });
    if (rotated.outcome === 'no-endpoint') throw noEndpoint();
    logger.info({ partnerId, outcome: rotated.outcome, requestId }, 'webhook secret rotated');
    const body = JSON.stringify({
      object: 'webhook_secret',
      secret: rotated.secret,
      previous_secret_valid_until: rotated.previousSecretUntil.toISOString(),
    });
    if (rotated.outcome === 'replayed') reply.header('Idempotency-Replayed', 'true');
    reply.code(201).header('Cache-Control', 'no-store');
    return reply.type('application/json').send(body);
  });
}

/** @throws Problem when the body has no URL, or one that webhooks may not go to. */
function urlOf(request: FastifyRequest, policy: TargetPolicy): string {
  const validated = validateWebhookEndpoint(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  const refusal = targetRefusal(validated.url, policy);
  if (refusal === undefined) return validated.text;
  throw new Problem('invalid_request', 'Send the URL of a server on the public internet.', {
    errors: [{ pointer: '#/url', detail: `webhooks are not sent there: ${refusal}` }],
  });
}

function render({ url, verified, previousSecretUntil, updatedAt, disabledAt }: ShownEndpoint) {
  const open = verified ? 'verified' : 'pending';
  return {
    object: 'webhook_endpoint',
    url,
    status: disabledAt === undefined ? open : 'disabled',
    previous_secret_valid_until: previousSecretUntil?.toISOString() ?? null,
    updated_at: updatedAt.toISOString(),
    disabled_at: disabledAt?.toISOString() ?? null,
  };
}

function noEndpoint(): Problem {
  const detail = 'You have no webhook endpoint. Set one with PUT /v1/webhook-endpoint.';
  return new Problem('not_found', detail);
}
