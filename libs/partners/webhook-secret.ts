import { randomBytes } from 'node:crypto';

// Standard Webhooks 1.0 asks for 24 to 64 bytes. HMAC-SHA256 gains nothing from more than 32.
const secretBytes = 32;

/**
 * A new webhook secret in the form of Standard Webhooks 1.0: `whsec_` and random bytes in base64.
 */
export function generateWebhookSecret(): string {
  return `whsec_${randomBytes(secretBytes).toString('base64')}`;
}
