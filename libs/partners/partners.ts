import type { PartnerId } from '@triplock/payments';

/** Where a partner's webhooks go. More than one secret only while they rotate, newest first. */
export type WebhookEndpoint = { url: string; secrets: readonly string[] };

/** What an API key proves. */
export type Authentication =
  { outcome: 'authenticated'; partnerId: PartnerId } | { outcome: 'refused' };
