import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Problem, validateWebhookEndpoint, type ProblemCode } from '@triplock/contracts';
import { type RotatedSecret, type TargetPolicy, type TestResult } from '@triplock/partners';
import type { EndpointId, JsonValue } from '@triplock/payments';
import type { FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { incorrectFields, unknownYet } from '../http/problems.ts';
import { readKey, refuseBody } from '../http/request-body.ts';
import { askStore } from '../http/turns.ts';
import type { PartnerRoutes } from './partner-routes.ts';
import { idempotencyKeyHeader, problems, replayedHeader } from './schemas.ts';
import {
  answer,
  named,
  noSuchEndpoint,
  params,
  refuseTarget,
  renderEndpoint,
  type OfOne,
} from './webhook-endpoints.ts';

const readEndpoint: FastifySchema = {
  operationId: 'readWebhookEndpoint',
  summary: 'Read your first webhook endpoint',
  description: 'The oldest of those that `GET /v1/webhook-endpoints` lists.',
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
  summary: 'Set where the webhooks of your first endpoint go',
  description:
    'The short way for who needs one endpoint: sets the URL of your oldest, and makes one that wants ' +
    'every type when you have none. Needs no `Idempotency-Key`: setting the same URL twice leaves it as it is. https on a public ' +
    'host name or address, on port 443 or from 1024 on, without user or password; a demo also ' +
    'sends to its own machine. The name is resolved and judged again at every attempt, and ' +
    'redirects are not followed. Deliveries that wait go to the new URL. A server that answers ' +
    '`410 Gone` wants no more webhooks: the endpoint is disabled (`disabled_at`), as good as none; so is ' +
    'one at which every attempt has failed for days (`failing_since`), of which another open endpoint ' +
    'is sent `endpoint.disabled`.\n\n' +
    'A URL gets webhooks once its server has shown that it wants them (`status`): within seconds it ' +
    'is sent `{ "type": "endpoint.verification", "timestamp": "…", "data": { "token": "…" } }`, ' +
    'signed as every webhook. Verify the signature, and answer within 10 seconds with a 2xx whose ' +
    'body is `{ "token": "…" }` or the token as text, and nothing else, in at most 4 KiB. Another ' +
    'answer, a redirect too, counts as none; it is asked again, each time with another token, after ' +
    'pauses from 30 seconds to an hour for about a day, and anew whenever you set the endpoint, ' +
    'which may be the same URL.\n\n' +
    'Without a verified endpoint nothing is tried: deliveries are `parked` for up to 90 days, and ' +
    'within seconds after it is verified they are sent, with 24 hours of attempts before them. What ' +
    'came while you had no endpoint goes to the oldest that wants it. ' +
    'Webhooks have a rate per partner and per host of the URL; what is beyond it comes later. So it is ' +
    'at an endpoint that answers 429, 502 or 504, whose rate halves, and until `Retry-After` of a 429 or ' +
    '503, up to an hour.',
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

const rotateSecretSchema: FastifySchema = {
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
const onePath = '/v1/webhook-endpoints/:id';

/**
 * `GET` and `PUT /v1/webhook-endpoint`, the first of a partner's endpoints, `POST …/secrets` of it
 * or of any, and `POST /v1/webhook-endpoints/{id}/test`.
 */
export function addWebhookEndpointRoutes(app: PartnerRoutes, gateway: Gateway): void {
  const { endpoints, logger } = gateway;
  app.get(path, { schema: readEndpoint, scope: 'read' }, async (request, reply) => {
    const endpoint = await askStore(gateway, { request, what: 'reading an endpoint' }, () =>
      endpoints.show(request.partnerId),
    );
    if (endpoint === undefined) throw noEndpoint();
    return reply.type('application/json').send(JSON.stringify(renderEndpoint(endpoint)));
  });

  app.put(path, { schema: setEndpoint, scope: 'full' }, async (request, reply) => {
    const { partnerId, id: requestId } = request;
    const url = urlOf(request, gateway.targetPolicy);
    const set = await askStore(gateway, { request, what: 'setting an endpoint' }, () =>
      endpoints.setUrl({ partnerId, url }),
    );
    logger.info({ partnerId, outcome: set.outcome, requestId }, 'webhook endpoint set');
    const body = JSON.stringify({
      ...renderEndpoint(set.endpoint),
      ...(set.outcome === 'made' ? { secret: set.secret } : {}),
    });
    reply.code(set.outcome === 'made' ? 201 : 200).header('Cache-Control', 'no-store');
    return reply.type('application/json').send(body);
  });

  const rotateSchema = { ...rotateSecretSchema, operationId: 'rotateWebhookSecret' };
  app.post(`${path}/secrets`, { schema: rotateSchema, scope: 'full' }, (request, reply) =>
    rotate(gateway, { request, reply, noEndpoint }),
  );
  app.post<OfOne>(
    `${onePath}/secrets`,
    { schema: rotateOneSchema, scope: 'full' },
    (request, reply) =>
      rotate(gateway, { request, reply, id: named(request).id, noEndpoint: noSuchEndpoint }),
  );
  addTestRoute(app, gateway);
}

/** Rotates the secret of the endpoint that is named, or of the partner's first. */
async function rotate(
  gateway: Gateway,
  asked: {
    request: FastifyRequest;
    reply: FastifyReply;
    id?: EndpointId;
    noEndpoint: () => Problem;
  },
): Promise<FastifyReply> {
  const { request, reply, id } = asked;
  const { partnerId, id: requestId } = request;
  refuseBody(request);
  const key = readKey(request);
  const rotated = await askStore<RotatedSecret>(
    gateway,
    { request, what: 'rotating a secret' },
    () => gateway.endpoints.rotateSecret({ partnerId, key, ...(id && { id }) }),
  );
  if (rotated.outcome === 'no-endpoint') throw asked.noEndpoint();
  gateway.logger.info({ partnerId, outcome: rotated.outcome, requestId }, 'webhook secret rotated');
  const body = JSON.stringify({
    object: 'webhook_secret',
    secret: rotated.secret,
    previous_secret_valid_until: rotated.previousSecretUntil.toISOString(),
  });
  if (rotated.outcome === 'replayed') reply.header('Idempotency-Replayed', 'true');
  reply.code(201).header('Cache-Control', 'no-store');
  return reply.type('application/json').send(body);
}

/** @throws Problem when the body has no URL, or one that webhooks may not go to. */
function urlOf(request: FastifyRequest, policy: TargetPolicy): string {
  const validated = validateWebhookEndpoint(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  refuseTarget(validated.url, policy);
  return validated.asked.url;
}

function noEndpoint(): Problem {
  const detail = 'You have no webhook endpoint. Set one with PUT /v1/webhook-endpoint.';
  return new Problem('not_found', detail);
}

const rotateOneSchema: FastifySchema = {
  ...rotateSecretSchema,
  operationId: 'rotateWebhookEndpointSecret',
  summary: 'Rotate the secret of a webhook endpoint',
  params,
};

const testSchema: FastifySchema = {
  operationId: 'testWebhookEndpoint',
  summary: 'Send a test to a webhook endpoint',
  description:
    'Sends `{ "type": "endpoint.test", "timestamp": "…", "data": { "object": "webhook_endpoint", ' +
    '"id": "…" } }`, signed as every webhook, to this endpoint alone, once, and answers with what came ' +
    'back, within about 15 seconds. Only a verified endpoint is sent one, and one in ten seconds. It ' +
    'is no delivery: nothing is tried again. Takes no body.',
  params,
  response: {
    200: answer('What came back.', 'WebhookTest'),
    ...problems(
      'invalid_request',
      'unauthorized',
      'not_found',
      'request_timeout',
      'webhook_endpoint_not_verified',
      'body_too_large',
      'unsupported_media_type',
      'internal_error',
      'unavailable',
    ),
  },
};

// A test is sent within 10 s, by a notifier that looks for it at once.
const answeredWithinMs = 15_000;
const looksApartMs = 150;

/** `POST /v1/webhook-endpoints/{id}/test`: a notifier sends it, this waits for what came back. */
function addTestRoute(app: PartnerRoutes, gateway: Gateway): void {
  const closing = new AbortController();
  app.addHook('preClose', async () => closing.abort());
  app.post<OfOne>(
    `${onePath}/test`,
    { schema: testSchema, scope: 'full' },
    async (request, reply) => {
      refuseBody(request);
      const endpoint = named(request);
      const testId = randomUUID();
      const asked = await askStore(gateway, { request, what: 'asking for a test' }, () =>
        gateway.endpoints.askTest(endpoint, testId),
      );
      if (asked === 'no-endpoint') throw noSuchEndpoint();
      if (asked === 'not-open') throw refusal('webhook_endpoint_not_verified', notVerified);
      if (asked === 'too-soon') throw refusal('rate_limited', 'One test in ten seconds is sent.');
      const result = await testResult(gateway, {
        id: endpoint.id,
        testId,
        closing: closing.signal,
      });
      if (result === undefined) throw unknownYet();
      const { outcome, status, tookMs } = result;
      const shown = { outcome, status, took_ms: tookMs };
      const body = { object: 'webhook_test', endpoint: endpoint.id, webhook_id: testId, ...shown };
      return reply.type('application/json').send(JSON.stringify(body));
    },
  );
}

/** Looks again and again; `undefined` when nobody has answered in time. */
async function testResult(
  { endpoints }: Gateway,
  { id, testId, closing }: { id: EndpointId; testId: string; closing: AbortSignal },
): Promise<TestResult | undefined> {
  const end = performance.now() + answeredWithinMs;
  while (performance.now() < end && !closing.aborted) {
    await delay(looksApartMs, undefined, { signal: closing }).catch(() => undefined);
    // A look that fails is not the last one.
    const result = await endpoints.readTest(id, testId).catch(() => undefined);
    if (result !== undefined) return result;
  }
  return undefined;
}

const notVerified =
  'Only an endpoint whose server has shown that it wants webhooks is sent a test: see its `status`.';

function refusal(code: ProblemCode, detail: string): Problem {
  return new Problem(code, detail, { headers: { 'Retry-After': '10' } });
}
