import { Problem, validateWebhookEndpoint, readIdempotencyKey } from '@triplock/contracts';
import {
  targetRefusal,
  type ShownEndpoint,
  type TargetPolicy,
  type WebhookEndpoints,
} from '@triplock/partners';
import type { JsonValue } from '@triplock/payments';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { askStore, type AskParts } from '../http/ask-store.ts';
import '../http/http-types.ts';
import { incorrectFields } from '../http/incorrect-request.ts';
import { refuseBody } from '../http/refuse-body.ts';
import {
  readEndpointOperation,
  rotateSecretOperation,
  setEndpointOperation,
} from './webhook-operations.ts';

/** What the routes stand on. */
export type WebhookEndpointParts = AskParts & {
  endpoints: WebhookEndpoints;
  /** Where webhooks may go; the sender judges by the same policy again. */
  targetPolicy: TargetPolicy;
};

const path = '/v1/webhook-endpoint';

/** `GET` and `PUT /v1/webhook-endpoint`, and `POST /v1/webhook-endpoint/secrets`. */
export function addWebhookEndpointRoutes(app: FastifyInstance, parts: WebhookEndpointParts): void {
  const { endpoints, logger } = parts;
  app.get(path, { schema: readEndpointOperation }, async ({ partnerId }, reply) => {
    const work = endpoints.show(partnerId);
    const endpoint = await askStore(parts, { what: 'reading an endpoint', work });
    if (endpoint === undefined) throw noEndpoint();
    return reply.type('application/json').send(JSON.stringify(render(endpoint)));
  });

  app.put(path, { schema: setEndpointOperation }, async (request, reply) => {
    const { partnerId } = request;
    const url = urlOf(request, parts.targetPolicy);
    const work = endpoints.setUrl({ partnerId, url });
    const set = await askStore(parts, { what: 'setting an endpoint', work });
    logger.info({ partnerId, outcome: set.outcome }, 'webhook endpoint set');
    const body = JSON.stringify({
      ...render(set.endpoint),
      ...(set.outcome === 'made' ? { secret: set.secret } : {}),
    });
    reply.code(set.outcome === 'made' ? 201 : 200).header('Cache-Control', 'no-store');
    return reply.type('application/json').send(body);
  });

  app.post(`${path}/secrets`, { schema: rotateSecretOperation }, async (request, reply) => {
    const { partnerId } = request;
    refuseBody(request);
    const key = readIdempotencyKey(request.raw.rawHeaders);
    const work = endpoints.rotateSecret({ partnerId, key });
    const rotated = await askStore(parts, { what: 'rotating a secret', work });
    if (rotated.outcome === 'no-endpoint') throw noEndpoint();
    logger.info({ partnerId, outcome: rotated.outcome }, 'webhook secret rotated');
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

function render({ url, previousSecretUntil, updatedAt, disabledAt }: ShownEndpoint) {
  return {
    object: 'webhook_endpoint',
    url,
    previous_secret_valid_until: previousSecretUntil?.toISOString() ?? null,
    updated_at: updatedAt.toISOString(),
    disabled_at: disabledAt?.toISOString() ?? null,
  };
}

function noEndpoint(): Problem {
  const detail = 'You have no webhook endpoint. Set one with PUT /v1/webhook-endpoint.';
  return new Problem('not_found', detail);
}
