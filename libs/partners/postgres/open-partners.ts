import type { PartnerId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import { createAuthenticator } from '../authenticate.ts';
import type { Partners, WebhookEndpoint } from '../partners.ts';

const findApiKey = loadSql(import.meta.url, 'find-api-key.sql');
const findWebhookEndpoint = loadSql(import.meta.url, 'find-webhook-endpoint.sql');

/** Partners in PostgreSQL. `clock` gives milliseconds; the machine's own unless told. */
export function openPartners(
  database: Database,
  { clock = () => performance.now() }: { clock?: () => number } = {},
): Partners {
  const authenticator = createAuthenticator(async (keyHash) => {
    const rows = await database.query<{ partner_id: PartnerId }>(findApiKey, [keyHash]);
    return rows[0]?.partner_id;
  }, clock);
  return {
    authenticate: (apiKey) => authenticator.authenticate(apiKey),
    async webhookEndpoint(partnerId) {
      const rows = await database.query<WebhookEndpoint>(findWebhookEndpoint, [partnerId]);
      return rows[0];
    },
    stale: () => authenticator.stale(),
    warm: () => authenticator.warm(),
    async ping() {
      try {
        await database.ping();
      } catch (error) {
        authenticator.noteStore('away');
        throw error;
      }
      authenticator.noteStore('answers');
    },
  };
}
