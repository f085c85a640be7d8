import type { EventId } from '@triplock/payments';
import { Webhook } from 'standardwebhooks';

/** The three headers of Standard Webhooks 1.0. */
export type WebhookHeaders = {
  'webhook-id': string;
  'webhook-timestamp': string;
  'webhook-signature': string;
};

/** What is signed. `at` is the time of this attempt; receivers refuse one that is minutes away. */
export type SignedContent = { eventId: EventId; body: string; at: Date };

/**
 * Signs one attempt with every secret of the endpoint, newest first, so that a receiver may change
 * to the new secret at any time while they rotate.
 *
 * @throws when a secret is not `whsec_` and base64.
 */
export function signWebhook(secrets: readonly string[], content: SignedContent): WebhookHeaders {
  const { eventId, body, at } = content;
  const signatures = secrets.map((secret) => new Webhook(secret).sign(eventId, at, body));
  return {
    'webhook-id': eventId,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
    'webhook-signature': signatures.join(' '),
  };
}
