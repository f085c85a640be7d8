import type { TestContext } from 'node:test';
import {
  openPartners,
  openWebhookDeliveries,
  openWebhookEndpoints,
  parseWebhookKeys,
  type TargetPolicy,
} from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { createTestDatabase, testWebhookKeys } from '@triplock/testing';
import { createHttpServer } from '../http/server.ts';
import { addWebhookDeliveryRoutes } from '../routes/webhook-deliveries.ts';
import { addWebhookEndpointRoutes } from '../routes/webhook-endpoint.ts';
import { admitByName, partialGateway } from './gateway.ts';

/** What an answer was, as far as tests look at it. */
export type Answered = {
  status: number;
  headers: Record<string, unknown>;
  body: Record<string, unknown>;
};

/** One request; the partner named by `as` sends it. */
export type Asked = {
  method: 'GET' | 'PUT' | 'POST';
  path: string;
  body?: unknown;
  key?: string;
  as?: string;
};

const verifiedSql = `UPDATE partners.webhook_endpoints SET verified_url = url, verified_at = now()
  WHERE verified_url IS DISTINCT FROM url`;

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
      addWebhookEndpointRoutes(server, parts);
      addWebhookDeliveryRoutes(server, parts);
    },
  });
  t.after(() => app.close());

  const ask = async ({ method, path, body, key, as = 'acme' }: Asked): Promise<Answered> => {
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
    return { status, headers, body: response.json() };
  };
  const partners = openPartners(store.open('triplock_notifier'), { webhookKeys });
  /** What the notifier knows of an endpoint once its server has said that it wants webhooks. */
  const seenByNotifier = async (id = 'acme') => {
    await owner.query(verifiedSql);
    return partners.webhookEndpoint(id as PartnerId);
  };
  return { app, ask, owner, store, gateway, seenByNotifier };
}

/** The code and the pointers of a problem. */
export function problemOf({ body }: Answered): { code: unknown; pointers: string[] } {
  const errors = (body['errors'] ?? []) as { pointer: string }[];
  return { code: body['code'], pointers: errors.map(({ pointer }) => pointer) };
}
