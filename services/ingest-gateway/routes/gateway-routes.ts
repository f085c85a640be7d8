import { createLogger, createMetrics, createRateLimiter } from '@triplock/runtime';
import type { FastifyInstance } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { gatewayMetrics } from '../http/metrics.ts';
import { renderOpenApi } from '../http/openapi.ts';
import { createHttpServer } from '../http/server.ts';
import { addDisputeRoutes } from './disputes.ts';
import { addEventRoutes } from './events.ts';
import { addApiKeyRoutes } from './api-keys.ts';
import { addKeyRoutes } from './keys.ts';
import { addKindRoutes } from './kinds.ts';
import { addListRoutes } from './list-transactions.ts';
import { partnerRoutes } from './partner-routes.ts';
import { addSettlementRoutes } from './settlements.ts';
import { addWebhookDeliveryRoutes } from './webhook-deliveries.ts';
import { addWebhookEndpointRoutes } from './webhook-endpoint.ts';
import { addWebhookEndpointsRoutes } from './webhook-endpoints.ts';

/**
 * Every route that a partner can call; each keeps to its partner (scoping.test.ts), says what API
 * key it needs (scopes.test.ts), and a mutating one has its guard (every-route-claims.test.ts).
 */
export function addGatewayRoutes(server: FastifyInstance, gateway: Gateway): void {
  addTransactionRoutes(server, gateway);
  const app = partnerRoutes(server);
  addApiKeyRoutes(app, gateway);
  addSettlementRoutes(app, gateway);
  addEventRoutes(app, gateway);
  addWebhookEndpointRoutes(app, gateway);
  addWebhookEndpointsRoutes(app, gateway);
  addWebhookDeliveryRoutes(app, gateway);
}

/** Those about transactions of every kind. */
export function addTransactionRoutes(server: FastifyInstance, gateway: Gateway): void {
  const app = partnerRoutes(server);
  addKindRoutes(app, gateway);
  addKeyRoutes(app, gateway);
  addListRoutes(app, gateway);
  addDisputeRoutes(app, gateway);
}

/**
 * The OpenAPI document of all routes as text, made without anything that they stand on.
 * `npm run generate` writes it to docs/openapi.json.
 */
export async function describeGateway(): Promise<string> {
  const logger = createLogger({ service: 'ingest-gateway', instance: 'none', level: 'silent' });
  const metrics = gatewayMetrics(createMetrics('none'));
  const nobody = createRateLimiter({ perSecond: 1, burst: 1 });
  const app = await createHttpServer({
    logger,
    admission: {
      authenticate: async () => ({ outcome: 'refused' }),
      partnerRate: nobody,
      failureRate: nobody,
      publicRate: nobody,
    },
    routes(server) {
      // No request ever comes, so no handler looks at its parts.
      addGatewayRoutes(server, { logger, metrics } as Gateway);
    },
  });
  const text = renderOpenApi(app);
  await app.close();
  return text;
}
