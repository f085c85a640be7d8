import {
  everyEvent,
  Problem,
  validateEndpointChanges,
  validateNewEndpoint,
} from '@triplock/contracts';
import {
  endpointsMax,
  targetRefusal,
  type EndpointChanges,
  type EndpointOrder,
  type MadeEndpoint,
  type ShownEndpoint,
  type TargetPolicy,
  type WantedEvents,
} from '@triplock/partners';
import { fingerprint, type EndpointId, type EventType, type JsonValue } from '@triplock/payments';
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { incorrectFields, queryText, reused } from '../http/problems.ts';
import { readKey, refuseBody, refuseCardData } from '../http/request-body.ts';
import { askStore } from '../http/turns.ts';
import type { PartnerRoutes } from './partner-routes.ts';
import { idempotencyKeyHeader, problems, replayedHeader } from './schemas.ts';

const always = ['invalid_request', 'unauthorized', 'internal_error', 'unavailable'] as const;
const withBody = ['request_timeout', 'body_too_large', 'unsupported_media_type'] as const;

/** The path of a route of one endpoint. */
export type OfOne = { Params: { id: string } };

/** What such a path says. */
export const params = {
  type: 'object',
  required: ['id'],
  properties: { id: { type: 'string', format: 'uuid', description: 'an endpoint of yours' } },
};

/** An answer of a route of one endpoint. */
export const answer = (description: string, schema: string, headers?: object) => ({
  description,
  ...(headers && { headers }),
  content: { 'application/json': { schema: { $ref: `${schema}#` } } },
});

const listSchema: FastifySchema = {
  operationId: 'listWebhookEndpoints',
  summary: 'List your webhook endpoints',
  description: `The oldest first, ${endpointsMax} at most, which is how many you may have.`,
  response: { 200: answer('All of them.', 'WebhookEndpointList'), ...problems(...always) },
};

const makeSchema: FastifySchema = {
  operationId: 'createWebhookEndpoint',
  summary: 'Make a webhook endpoint',
  description:
    'Each of your endpoints has a secret of its own, proves for itself that it wants webhooks, and ' +
    'gets a delivery of each event of a type in its `enabled_events`, by default all. What the URL ' +
    'may be, and how it is verified, `PUT /v1/webhook-endpoint` says. An event that none of your ' +
    'endpoints wants is not delivered and not kept for one; while you have no endpoint at all, ' +
    'events wait for the first. All copies of an event have one `webhook-id`, at whichever endpoint.' +
    `\n\nYou may have ${endpointsMax}: each event is sent as often as you have endpoints for it. What you make, ` +
    'set and rotate is 200 within 24 hours at most, since each is kept on record.',
  headers: idempotencyKeyHeader('endpoint'),
  body: { $ref: 'WebhookEndpointCreation#' },
  response: {
    201: answer(
      'Made, now or before, with a `secret` that is shown to this key alone, until it has been ' +
        'rotated twice.',
      'WebhookEndpoint',
      replayedHeader,
    ),
    ...problems(
      'idempotency_key_missing',
      'idempotency_key_invalid',
      ...always,
      ...withBody,
      'idempotency_key_reused',
    ),
  },
};

const readSchema: FastifySchema = {
  operationId: 'readWebhookEndpointById',
  summary: 'Read a webhook endpoint',
  params,
  response: {
    200: answer('The endpoint, without its secrets.', 'WebhookEndpoint'),
    ...problems(...always, 'not_found'),
  },
};

const changeSchema: FastifySchema = {
  operationId: 'changeWebhookEndpoint',
  summary: 'Change a webhook endpoint',
  description:
    'Changes what is named, and needs no `Idempotency-Key`: the same change twice is one. A `url`, ' +
    'the same too, enables a disabled endpoint and has it asked anew unless it is verified. ' +
    '`enabled_events` count for events from then on: deliveries that were made stay.',
  params,
  body: { $ref: 'WebhookEndpointChanges#' },
  response: {
    200: answer('The endpoint as it is now.', 'WebhookEndpoint'),
    ...problems(...always, 'not_found', ...withBody),
  },
};

const deleteSchema: FastifySchema = {
  operationId: 'deleteWebhookEndpoint',
  summary: 'Delete a webhook endpoint',
  description:
    'Its secrets are erased at once. Deliveries that wait for it, or were given up there, are ' +
    '`canceled` within seconds; an attempt that is under way comes to its end, and one more is not ' +
    'made.',
  params,
  response: {
    // A `null` is what the document shows as no content.
    204: { type: 'null', description: 'Deleted.' },
    ...problems(...always, 'not_found'),
  },
};

const path = '/v1/webhook-endpoints';

/** A partner's endpoints: `/v1/webhook-endpoints`, one by its id, and what is done with one. */
export function addWebhookEndpointsRoutes(app: PartnerRoutes, gateway: Gateway): void {
  const { endpoints, logger } = gateway;
  app.get(path, { schema: listSchema, scope: 'read' }, async (request, reply) => {
    if (queryText(request.url) !== '') throw unknownParameter();
    const all = await askStore(gateway, { request, what: 'listing endpoints' }, () =>
      endpoints.list(request.partnerId),
    );
    const page = { object: 'list', data: all.map(renderEndpoint), has_more: false };
    return reply.type('application/json').send(JSON.stringify(page));
  });
  addMakeRoute(app, gateway);

  app.get<OfOne>(`${path}/:id`, { schema: readSchema, scope: 'read' }, async (request, reply) => {
    const asked = named(request);
    const endpoint = await askStore(gateway, { request, what: 'reading' }, () =>
      endpoints.find(asked),
    );
    if (endpoint === undefined) throw noSuchEndpoint();
    return reply.type('application/json').send(JSON.stringify(renderEndpoint(endpoint)));
  });

  app.patch<OfOne>(
    `${path}/:id`,
    { schema: changeSchema, scope: 'full' },
    async (request, reply) => {
      const endpoint = named(request);
      const changes = changesOf(request, gateway);
      const changed = await askStore(gateway, { request, what: 'changing' }, () =>
        endpoints.change(endpoint, changes),
      );
      if (changed === undefined) throw noSuchEndpoint();
      logger.info({ ...endpoint, requestId: request.id }, 'webhook endpoint changed');
      return reply.type('application/json').send(JSON.stringify(renderEndpoint(changed)));
    },
  );

  app.delete<OfOne>(
    `${path}/:id`,
    { schema: deleteSchema, scope: 'full' },
    async (request, reply) => {
      refuseBody(request);
      const endpoint = named(request);
      const deleted = await askStore(gateway, { request, what: 'deleting' }, () =>
        endpoints.delete(endpoint),
      );
      if (!deleted) throw noSuchEndpoint();
      logger.info({ ...endpoint, requestId: request.id }, 'webhook endpoint deleted');
      return reply.code(204).send();
    },
  );
}

/** `POST /v1/webhook-endpoints`. Its claim is the endpoint's row, whose id is made from the key. */
function addMakeRoute(app: PartnerRoutes, gateway: Gateway): void {
  app.post(path, { schema: makeSchema, scope: 'full' }, async (request, reply) => {
    const order = orderOf(request, gateway);
    const made = await askStore(gateway, { request, what: 'making an endpoint' }, () =>
      gateway.endpoints.make(order),
    );
    const line = { partnerId: order.partnerId, outcome: made.outcome, requestId: request.id };
    gateway.logger.info(line, 'webhook endpoint asked for');
    if (made.outcome === 'replayed') reply.header('Idempotency-Replayed', 'true');
    switch (made.outcome) {
      case 'replayed':
      case 'made': {
        reply
          .code(201)
          .header('Cache-Control', 'no-store')
          .header('Location', `${path}/${made.id}`);
        return reply.type('application/json').send(JSON.stringify(renderMade(order, made)));
      }
      case 'reused':
        throw reused();
      case 'deleted':
        throw new Problem(
          'idempotency_key_reused',
          'The endpoint that this key made was deleted. Make another one with a new key.',
        );
      case 'too-many': {
        const detail = `expected at most ${endpointsMax} endpoints: delete one first`;
        throw incorrectFields([{ pointer: '#', detail }]);
      }
      default:
        return made satisfies never;
    }
  });
}

/** As it was when it was made, whatever became of it: a replay has the same bytes. */
function renderMade(order: EndpointOrder, made: MadeEndpoint & { id: EndpointId; madeAt: Date }) {
  const { url, description, wants } = order;
  const { id, madeAt, secret } = made as { secret?: string } & typeof made;
  const shown = { id, url, wants, verified: false, madeAt, updatedAt: madeAt };
  return {
    ...renderEndpoint({ ...shown, ...(description !== undefined && { description }) }),
    ...(secret !== undefined && { secret }),
  };
}

/** @throws Problem when the key or the body is not one, or webhooks may not go to its URL. */
function orderOf(request: FastifyRequest, { targetPolicy }: Gateway): EndpointOrder {
  const key = readKey(request);
  const validated = validateNewEndpoint(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  const { asked, url, body } = validated;
  refuseCardData(request, body);
  refuseTarget(url, targetPolicy);
  const { description } = asked;
  return {
    partnerId: request.partnerId,
    key,
    fingerprint: fingerprint({ method: 'POST', path, body }),
    url: asked.url,
    wants: wantsOf(asked.enabled_events ?? [everyEvent]),
    ...(description === undefined ? {} : { description }),
  };
}

/** @throws Problem when the body says no change, or webhooks may not go to its URL. */
function changesOf(request: FastifyRequest, { targetPolicy }: Gateway): EndpointChanges {
  const validated = validateEndpointChanges(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  const { asked, url, body } = validated;
  refuseCardData(request, body);
  refuseTarget(url, targetPolicy);
  const { enabled_events: events, ...rest } = asked;
  return { ...rest, ...(events === undefined ? {} : { wants: wantsOf(events) }) };
}

function wantsOf(events: readonly (EventType | typeof everyEvent)[]): WantedEvents {
  const types = events.filter((each) => each !== everyEvent);
  return types.length === 0 ? 'all' : types;
}

/** @throws Problem when webhooks may not go there. */
export function refuseTarget(url: URL | undefined, policy: TargetPolicy): void {
  const refusal = url && targetRefusal(url, policy);
  if (refusal === undefined) return;
  throw new Problem('invalid_request', 'Send the URL of a server on the public internet.', {
    errors: [{ pointer: '#/url', detail: `webhooks are not sent there: ${refusal}` }],
  });
}

/** An endpoint as partners see it. */
export function renderEndpoint(endpoint: ShownEndpoint) {
  const { verified, disabled } = endpoint;
  const open = verified ? 'verified' : 'pending';
  return {
    id: endpoint.id,
    object: 'webhook_endpoint',
    url: endpoint.url,
    description: endpoint.description ?? null,
    enabled_events: endpoint.wants === 'all' ? [everyEvent] : endpoint.wants,
    status: disabled === undefined ? open : 'disabled',
    previous_secret_valid_until: endpoint.previousSecretUntil?.toISOString() ?? null,
    created_at: endpoint.madeAt.toISOString(),
    updated_at: endpoint.updatedAt.toISOString(),
    failing_since: endpoint.failingSince?.toISOString() ?? null,
    disabled_at: disabled?.at.toISOString() ?? null,
    disabled_reason: disabled?.because ?? null,
  };
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** @throws Problem `not_found` for what can be no id. */
export function named({ partnerId, params }: FastifyRequest<OfOne>) {
  if (!uuid.test(params.id)) throw noSuchEndpoint();
  return { partnerId, id: params.id as EndpointId };
}

/** Nothing there, or another partner's: 404. */
export function noSuchEndpoint(): Problem {
  return new Problem('not_found', 'There is no such webhook endpoint.');
}

function unknownParameter(): Problem {
  return new Problem('invalid_request', 'Ask without a query.', {
    errors: [{ pointer: '#', detail: 'all endpoints are on one page' }],
  });
}
