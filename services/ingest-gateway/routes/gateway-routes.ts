import type { FastifyInstance } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { addCreateRoutes } from './create-transactions.ts';
import { addListRoutes } from './list-transactions.ts';
import { addReadRoutes } from './read-transactions.ts';
import { addRefundRoutes } from './refunds.ts';
import { addSettlementRoutes } from './settlements.ts';
import { addWebhookDeliveryRoutes } from './webhook-deliveries.ts';
import { addWebhookEndpointRoutes } from './webhook-endpoint.ts';

/**
 * Every route that a partner can call; each keeps to its partner (scoping.test.ts), and a mutating
 * one has its guard (every-route-claims.test.ts).
 */
export function addGatewayRoutes(app: FastifyInstance, gateway: Gateway): void {
  addTransactionRoutes(app, gateway);
  addSettlementRoutes(app, gateway);
  addWebhookEndpointRoutes(app, gateway);
  addWebhookDeliveryRoutes(app, gateway);
}

/** Those about transactions of every kind. */
export function addTransactionRoutes(app: FastifyInstance, gateway: Gateway): void {
  addCreateRoutes(app, gateway);
  const read = addReadRoutes(app, gateway);
  addRefundRoutes(app, gateway, read);
  addListRoutes(app, gateway);
}
