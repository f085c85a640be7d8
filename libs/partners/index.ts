export { generateApiKey } from './api-key.ts';
export * from './partners.ts';
export * from './postgres/open-partners.ts';
export * from './postgres/open-webhook-deliveries.ts';
export * from './postgres/open-webhook-endpoints.ts';
export * from './postgres/seed-partner.ts';
export * from './target-policy.ts';
export * from './webhook-deliveries.ts';
export * from './webhook-endpoints.ts';
