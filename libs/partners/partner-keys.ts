import { currentApiVersion, type ApiVersion, type KeyScope } from '@triplock/contracts';
import {
  deriveId,
  type Fingerprint,
  type IdempotencyKey,
  type PartnerId,
} from '@triplock/payments';
import { loadStatements, type Database } from '@triplock/postgres';
import { apiKeyPrefix, generateApiKey, hashApiKey, versionOf } from './api-keys.ts';
import { tellTooOften } from './done-too-often.ts';
import { UnopenedSecretError, type SealedSecret, type WebhookKeys } from './webhook-secrets.ts';

const sql = loadStatements(import.meta.url, 'postgres/partner-keys.sql', [
  'showApiKeys',
  'makeApiKey',
  'deleteApiKey',
]);

/** Good ones of one partner, an operator's too: of several programs, and their successors. */
export const apiKeysMax = 32;

/** So many are listed: the good ones, and as many as fit of those that expired lately. */
export const listedKeysMax = 100;

/** An API key as its partner may see it. */
export type ShownKey = {
  id: string;
  name: string | null;
  /** The beginning of the key; null for one of which nothing may be shown. */
  prefix: string | null;
  scope: KeyScope;
  /** What it gets when it asks for none. */
  apiVersion: ApiVersion;
  createdAt: Date;
  /** Null for one that does not expire. */
  expiresAt: Date | null;
  /** To within some minutes; null for one that was never used. */
  lastUsedAt: Date | null;
};

/** Whose keys, and the id of the one that asks. */
type Asking = { partnerId: PartnerId; askedBy: string };

/** A new key, and the key and the fingerprint of the request that makes it once. */
export type KeyOrder = Asking & {
  key: IdempotencyKey;
  fingerprint: Fingerprint;
  scope: KeyScope;
  name: string | null;
  expiresAt: Date | null;
};

/**
 * What making a key came to. `replayed`: this request had made it; the key is there until it was
 * used, and for a day at most. `deleted`: it had, and the key is no more. `reused`: the idempotency
 * key made another one. `too-many`: the partner has as many good ones as it may. `wrong-expiry`:
 * not in the future, or later than in five years. `outlives`: later than the key that asks, which
 * ends at that time; without a time it ends with that one. `not-allowed`: the key that asks was
 * revoked a moment ago. Nothing was done then.
 */
export type MadeKey =
  | ({ outcome: 'made' | 'replayed'; apiKey?: string } & Pick<
      ShownKey,
      'id' | 'createdAt' | 'prefix' | 'apiVersion' | 'expiresAt'
    >)
  | { outcome: 'outlives'; at: Date }
  | { outcome: 'reused' | 'deleted' | 'too-many' | 'wrong-expiry' | 'not-allowed' };

/**
 * API keys as partners manage them. Every method rejects without PostgreSQL; `make` does so with a
 * DoneTooOftenError when the partner did 200 acts within a day: each leaves rows that are kept.
 */
export type PartnerKeys = {
  /**
   * The good ones, the oldest first, then those that expired within 30 days, the last to expire
   * first; 100 at most, and whether there are more.
   */
  list(partnerId: PartnerId): Promise<{ keys: ShownKey[]; hasMore: boolean }>;
  make(order: KeyOrder): Promise<MadeKey>;
  /**
   * Gateways refuse the key within 5 s. `last-full`: the partner would have no key for everything
   * left that is good for another hour, or for as long as this one.
   */
  delete(
    asking: Asking & { id: string },
  ): Promise<'deleted' | 'no-such-key' | 'last-full' | 'not-allowed'>;
};

type Row = {
  key_id: string;
  name: string | null;
  prefix: string | null;
  scope: KeyScope;
  api_version: string | null;
  created_at: Date;
  expires_at: Date | null;
  last_used_at: Date | null;
};
type MadeRow = {
  outcome: MadeKey['outcome'];
  created_at: Date;
  prefix: string | null;
  api_version: string | null;
  sealed: SealedSecret | null;
  expires_at: Date | null;
};

/** API keys in PostgreSQL, where all clocks are the database's. */
export function openPartnerKeys(database: Database, keys: WebhookKeys): PartnerKeys {
  return {
    async list(partnerId) {
      const rows = await database.query<Row>(sql.showApiKeys, [partnerId, listedKeysMax + 1]);
      const keys = rows.slice(0, listedKeysMax).map((row) => ({
        id: row.key_id,
        name: row.name,
        prefix: row.prefix,
        scope: row.scope,
        apiVersion: versionOf(row.api_version),
        createdAt: row.created_at,
        expiresAt: row.expires_at,
        lastUsedAt: row.last_used_at,
      }));
      return { keys, hasMore: rows.length > listedKeysMax };
    },
    make: (order) => makeKey(database, keys, order),
    async delete({ partnerId, askedBy, id }) {
      type Deleted = { outcome: Awaited<ReturnType<PartnerKeys['delete']>> };
      const parameters = [partnerId, askedBy, id];
      const [row] = await database.query<Deleted>(sql.deleteApiKey, parameters);
      return row!.outcome;
    },
  };
}

async function makeKey(database: Database, keys: WebhookKeys, order: KeyOrder): Promise<MadeKey> {
  const { partnerId, askedBy, key, fingerprint, scope, name, expiresAt } = order;
  const id = deriveId('api-key', partnerId, key);
  const offered = generateApiKey(partnerId);
  const making = database.query<MadeRow>(sql.makeApiKey, [
    ...[partnerId, askedBy, id, fingerprint, hashApiKey(offered), apiKeyPrefix(offered)],
    ...[scope, name, expiresAt, JSON.stringify(keys.seal(partnerId, offered)), apiKeysMax],
    currentApiVersion,
  ]);
  const [row] = await making.catch(tellTooOften);
  const { outcome, prefix, sealed } = row!;
  const known = {
    id,
    createdAt: row!.created_at,
    prefix,
    apiVersion: versionOf(row!.api_version),
    expiresAt: row!.expires_at,
  };
  switch (outcome) {
    case 'made':
      return { outcome, ...known, apiKey: offered };
    case 'replayed': {
      const apiKey = sealed === null ? undefined : openIfHere(keys, partnerId, sealed);
      return { outcome, ...known, ...(apiKey !== undefined && { apiKey }) };
    }
    case 'outlives':
      return { outcome, at: row!.expires_at! };
    case 'reused':
    case 'deleted':
    case 'too-many':
    case 'wrong-expiry':
    case 'not-allowed':
      return { outcome };
    default:
      return outcome satisfies never;
  }
}

/** What seals may have been replaced since, and not be here any more: the key is not shown then. */
function openIfHere(keys: WebhookKeys, of: PartnerId, sealed: SealedSecret): string | undefined {
  try {
    return keys.open(of, sealed);
  } catch (error) {
    if (error instanceof UnopenedSecretError) return undefined;
    throw error;
  }
}
