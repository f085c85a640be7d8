export { DoneTooOftenError } from './done-too-often.ts';
export { generateApiKey, PartnersUnavailableError, type Authentication } from './api-keys.ts';
export * from './partner-registry.ts';
export * from './partners.ts';
export * from './settlements.ts';
export * from './target-policy.ts';
export * from './webhook-deliveries.ts';
export * from './webhook-endpoints.ts';
export * from './webhook-secrets.ts';
