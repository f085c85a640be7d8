import type { PartnerId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import { inBatches, shareReads } from '@triplock/runtime';
import { createAuthenticator } from '../authenticate.ts';
import type { Partners, WebhookEndpoint } from '../partners.ts';

const findApiKeys = loadSql(import.meta.url, 'find-api-keys.sql');
const disableEndpoint = loadSql(import.meta.url, 'disable-webhook-endpoint.sql');
const findWebhookEndpoint = loadSql(import.meta.url, 'find-webhook-endpoint.sql');

type EndpointRow = Pick<WebhookEndpoint, 'url' | 'secrets' | 'version'> & { disabled: boolean };
type KeyRow = { sha256: Buffer; partner_id: PartnerId };

/**
 * A flood of made-up keys takes one connection and a bounded number of statements, of a few
 * milliseconds each, and a good key waits behind one statement, never behind ten thousand. Only a
 * store that hangs lets so many wait that the next one is refused.
 */
const lookUpLimits = { itemsMax: 1_000, waitingMax: 10_000 };

/** Partners in PostgreSQL. `clock` gives milliseconds; the machine's own by default. */
export function openPartners(
  database: Database,
  { clock = () => performance.now() }: { clock?: () => number } = {},
): Partners {
  const find = inBatches(async (hashes: readonly Buffer[]) => {
    const rows = await database.query<KeyRow>(findApiKeys, [hashes]);
    const known = new Map(
      rows.map(({ sha256, partner_id }) => [sha256.toString('base64'), partner_id]),
    );
    return hashes.map((hash) => known.get(hash.toString('base64')));
  }, lookUpLimits);
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
