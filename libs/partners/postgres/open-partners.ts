import type { PartnerId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import { shareReads } from '@triplock/runtime';
import { createAuthenticator } from '../authenticate.ts';
import { groupQuestions } from '../group-questions.ts';
import type { Partners, WebhookEndpoint } from '../partners.ts';

const findApiKeys = loadSql(import.meta.url, 'find-api-keys.sql');
const disableEndpoint = loadSql(import.meta.url, 'disable-webhook-endpoint.sql');
const findWebhookEndpoint = loadSql(import.meta.url, 'find-webhook-endpoint.sql');

type EndpointRow = Pick<WebhookEndpoint, 'url' | 'secrets' | 'version'> & { disabled: boolean };
type KeyRow = { sha256: Buffer; partner_id: PartnerId };

/** Partners in PostgreSQL. `clock` gives milliseconds; the machine's own by default. */
export function openPartners(
  database: Database,
  { clock = () => performance.now() }: { clock?: () => number } = {},
): Partners {
  const find = groupQuestions(async (hashes) => {
    const rows = await database.query<KeyRow>(findApiKeys, [hashes]);
    return new Map(rows.map(({ sha256, partner_id }) => [sha256.toString('base64'), partner_id]));
  });
  const authenticator = createAuthenticator(find, clock);
  return {
    authenticate: (apiKey) => authenticator.authenticate(apiKey),
    webhookEndpoint: shareReads(async (partnerId) => {
      const [row] = await database.query<EndpointRow>(findWebhookEndpoint, [partnerId]);
      if (row === undefined) return undefined;
      const { disabled, ...endpoint } = row;
      return disabled ? { ...endpoint, disabled } : endpoint;
    }),
    async disableEndpoint({ partnerId, version }) {
      const parameters = [partnerId, version];
      const [row] = await database.query<{ disabled: boolean }>(disableEndpoint, parameters);
      return row!.disabled;
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
