import type { TestContext } from 'node:test';
import type { FastifyInstance } from 'fastify';
import {
  openPartners,
  openWebhookDeliveries,
  openWebhookEndpoints,
  parseWebhookKeys,
  type TargetPolicy,
} from '@triplock/partners';
import type { EndpointId } from '@triplock/payments';
import { createTestDatabase, testWebhookKeys } from '@triplock/testing';
import { partnerRoutes } from '../routes/partner-routes.ts';
import { addWebhookDeliveryRoutes } from '../routes/webhook-deliveries.ts';
import { addWebhookEndpointRoutes } from '../routes/webhook-endpoint.ts';
import { addWebhookEndpointsRoutes } from '../routes/webhook-endpoints.ts';
import { createHttpServer } from '../http/server.ts';
import { addTransactionRoutes } from '../routes/gateway-routes.ts';
import { admitByName, openTestGateway, partialGateway, type TestTimes } from './gateway.ts';

/** One request; the partner named by `as` sends it. A body of text goes out as it is. */
export type Asked = {
  key?: string;
  body?: object | string;
  headers?: Record<string, string>;
  as?: string;
};

/** What an answer was. */
export type Answered = {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  body: Record<string, unknown>;
};

/** The routes about payments and refunds over real stores of one test's own. */
export async function transactionEdge(t: TestContext, times: TestTimes = {}) {
  const opened = await openTestGateway(t, times);
  const { gateway } = opened;
  const app = await createHttpServer({
    logger: gateway.logger,
    admission: admitByName,
    routes: (server) => addTransactionRoutes(server, gateway),
  });
  t.after(() => app.close());

  const ask = async (method: 'GET' | 'POST', url: string, asked: Asked): Promise<Answered> => {
    const { key, body, headers, as = 'acme' } = asked;
    const response = await app.inject({
      method,
      url,
      headers: {
        authorization: `Bearer ${as}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(key === undefined ? {} : { 'idempotency-key': key }),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const { statusCode: status, payload: text } = response;
    return { status, headers: response.headers, text, body: response.json() };
  };
  return {
    ...opened,
    get: (path: string, asked: Asked = {}) => ask('GET', path, asked),
    post: (path: string, asked: Asked = {}) => ask('POST', path, asked),
  };
}

/** A route that may change something. */
export type MutatingRoute = { method: string; url: string };

/**
 * How a route is tried: where, and with two bodies that are not the same request; one where there
 * is no other. By default it answers 202 when it takes effect.
 */
export type Attempt = { path: string; body: object; otherBody?: object; status?: number };

/** What an answer was, as far as a claim shows in it. */
type ClaimAnswer = { status: number; text: string; isReplay: boolean };

/** Keeps a list of the mutating routes that are added from now on, as Fastify has them. */
export function listMutatingRoutes(app: FastifyInstance): MutatingRoute[] {
  const routes: MutatingRoute[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) {
      if (!['GET', 'HEAD', 'OPTIONS'].includes(each)) routes.push({ method: each, url });
    }
  });
  return routes;
}

/**
 * Tries a route as partners do: without a key, once, again, and with the key for another request.
 * Gives what shows that no claim stands before its effect; nothing when one does.
 */
export async function findMissingClaim(
  app: FastifyInstance,
  { method }: MutatingRoute,
  { path, body, otherBody, status = 202 }: Attempt,
): Promise<string[]> {
  const ask = async (payload: object, key?: string): Promise<ClaimAnswer> => {
    const headers = { authorization: 'Bearer acme', 'content-type': 'application/json' };
    const {
      statusCode,
      payload: text,
      headers: answered,
    } = await app.inject({
      method: method as 'POST',
      url: path,
      headers: { ...headers, ...(key !== undefined && { 'idempotency-key': key }) },
      payload: JSON.stringify(payload),
    });
    return { status: statusCode, text, isReplay: answered['idempotency-replayed'] === 'true' };
  };
  const key = `survey ${method} ${path}`;
  const keyless = await ask(body);
  const first = await ask(body, key);
  const again = await ask(body, key);
  const other = otherBody && (await ask(otherBody, key));
  const otherStatus = otherBody && 422;
  const problems: [boolean, string][] = [
    [keyless.status !== 400, `takes effect without a key (${keyless.status})`],
    [first.status !== status || first.isReplay, `does not accept the first (${first.status})`],
    [!again.isReplay, `does not mark a replay as one (${again.status})`],
    [again.text !== first.text, 'gives a retry other bytes'],
    [other?.status !== otherStatus, `takes a used key for another request (${other?.status})`],
  ];
  return problems.filter(([isThere]) => isThere).map(([, problem]) => problem);
}

/** What an answer was, as far as tests look at it. */
export type HookAnswered = {
  status: number;
  headers: Record<string, unknown>;
  body: Record<string, unknown>;
};

/** One request; the partner named by `as` sends it. */
export type HookAsked = {
  method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE';
  path: string;
  body?: unknown;
  key?: string;
  as?: string;
};

const verifiedSql = `UPDATE partners.webhook_endpoints SET verified_url = url, verified_at = now()
  WHERE verified_url IS DISTINCT FROM url`;
const firstSql = `SELECT endpoint_id AS id FROM partners.live_webhook_endpoints
  WHERE partner_id = $1 ORDER BY made_at LIMIT 1`;

/** The webhook routes over a database of one test's own, with the rights that the gateway has. */
export async function webhookEdge(
  t: TestContext,
  { targetPolicy = 'public' }: { targetPolicy?: TargetPolicy } = {},
) {
  const store = await createTestDatabase(t);
  const owner = store.open();
  await owner.query(`INSERT INTO partners.partners (id) VALUES ('acme'), ('globex')`);
  const gateway = store.open('triplock_gateway');
  const webhookKeys = parseWebhookKeys(testWebhookKeys);
  const parts = partialGateway({
    endpoints: openWebhookEndpoints(gateway, webhookKeys),
    deliveries: openWebhookDeliveries(gateway),
    targetPolicy,
  });
  const app = await createHttpServer({
    logger: parts.logger,
    admission: admitByName,
    routes: (server) => {
      const routes = partnerRoutes(server);
      addWebhookEndpointRoutes(routes, parts);
      addWebhookEndpointsRoutes(routes, parts);
      addWebhookDeliveryRoutes(routes, parts);
    },
  });
  t.after(() => app.close());

  const ask = async ({
    method,
    path,
    body,
    key,
    as = 'acme',
  }: HookAsked): Promise<HookAnswered> => {
    const response = await app.inject({
      method,
      url: path,
      headers: {
        authorization: `Bearer ${as}`,
        ...(key === undefined ? {} : { 'idempotency-key': key }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { payload: JSON.stringify(body) }),
    });
    const { statusCode: status, headers } = response;
    return { status, headers, body: response.payload === '' ? {} : response.json() };
  };
  const partners = openPartners(store.open('triplock_notifier'), { webhookKeys });
  /** What the notifier knows of an endpoint once its server has said that it wants webhooks. */
  const seenByNotifier = async (id = 'acme') => {
    await owner.query(verifiedSql);
    const [first] = await owner.query<{ id: EndpointId }>(firstSql, [id]);
    return first && partners.webhookEndpoint(first.id);
  };
  return { app, ask, owner, store, gateway, seenByNotifier };
}

/** The code and the pointers of a problem. */
export function problemOf({ body }: HookAnswered): { code: unknown; pointers: string[] } {
  const errors = (body['errors'] ?? []) as { pointer: string }[];
  return { code: body['code'], pointers: errors.map(({ pointer }) => pointer) };
}
