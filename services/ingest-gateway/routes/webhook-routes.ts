import type { FastifyInstance } from 'fastify';
import { addRedeliverWindowRoute } from './redeliver-window-route.ts';
import {
  addWebhookDeliveryRoutes,
  type WebhookDeliveriesParts,
} from './webhook-deliveries-route.ts';
import { addWebhookEndpointRoutes, type WebhookEndpointParts } from './webhook-endpoint-route.ts';

/** What all routes about webhooks stand on. */
export type WebhookRoutesParts = WebhookEndpointParts & WebhookDeliveriesParts;

/** Everything a partner can do about its webhooks. */
export function addWebhookRoutes(app: FastifyInstance, parts: WebhookRoutesParts): void {
  addWebhookEndpointRoutes(app, parts);
  addWebhookDeliveryRoutes(app, parts);
  addRedeliverWindowRoute(app, parts);
}
