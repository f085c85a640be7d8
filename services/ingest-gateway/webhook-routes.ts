import type { FastifyInstance } from 'fastify';
import { addWebhookEndpointRoutes, type WebhookEndpointParts } from './webhook-endpoint-route.ts';

/** What all routes about webhooks stand on. */
export type WebhookRoutesParts = WebhookEndpointParts;

/** Everything a partner can do about its webhooks. */
export function addWebhookRoutes(app: FastifyInstance, parts: WebhookRoutesParts): void {
  addWebhookEndpointRoutes(app, parts);
}
