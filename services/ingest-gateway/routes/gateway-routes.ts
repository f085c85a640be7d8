import type { FastifyInstance } from 'fastify';
import { addSettlementRoutes, type SettlementsRouteParts } from './settlements-route.ts';
import { addTransactionRoutes, type TransactionRoutesParts } from './transaction-routes.ts';
import { addWebhookRoutes, type WebhookRoutesParts } from './webhook-routes.ts';

/** What all routes stand on. */
export type GatewayRoutesParts = TransactionRoutesParts &
  SettlementsRouteParts &
  WebhookRoutesParts;

/**
 * Every route that a partner can call; a mutating one has its guard (every-route-claims.test.ts).
 */
export function addGatewayRoutes(app: FastifyInstance, parts: GatewayRoutesParts): void {
  addTransactionRoutes(app, parts);
  addSettlementRoutes(app, parts);
  addWebhookRoutes(app, parts);
}
