import type { PartnerId } from '@triplock/payments';
import { loadStatements, type Database } from '@triplock/postgres';
import { apiKeyPrefix, generateApiKey, hashApiKey } from './api-keys.ts';

const sql = loadStatements(import.meta.url, 'postgres/partner-registry.sql', [
  'listPartners',
  'addPartner',
  'addApiKey',
  'revokeApiKey',
  'seedPartner',
]);

/** What may be known of an API key. */
export type ListedKey = {
  /** The beginning of the key; null for one that was made before beginnings were kept. */
  prefix: string | null;
  createdAt: Date;
  /** Null while it is good. */
  revokedAt: Date | null;
};

/** A partner and its keys, the oldest first. */
export type ListedPartner = { id: PartnerId; keys: ListedKey[] };

/** Partners as an operator manages them. Every method rejects without PostgreSQL. */
export type PartnerRegistry = {
  list(): Promise<ListedPartner[]>;
  /** Makes a partner with its first key, whose whole text is never to be had again. */
  add(id: PartnerId): Promise<{ outcome: 'added'; apiKey: string } | { outcome: 'exists' }>;
  /**
   * Gives a partner one more key, good at once. The others go on, so that the partner may change
   * over at any time before they are revoked.
   */
  addKey(id: PartnerId): Promise<{ outcome: 'added'; apiKey: string } | { outcome: 'no-partner' }>;
  /**
   * Revokes the key that begins so, or that is the whole text. Gateways know of it within 5 s.
   * Nothing is done when several begin so.
   */
  revokeKey(
    id: PartnerId,
    beginning: string,
  ): Promise<{ outcome: 'revoked' | 'no-such-key' | 'several-keys' }>;
};

type KeyRow = { prefix: string | null; created_at: string; revoked_at: string | null };
type PartnerRow = { id: PartnerId; keys: KeyRow[] };

/** Partners in PostgreSQL, for a role that may write them. */
export function openPartnerRegistry(database: Database): PartnerRegistry {
  /** The new key, or undefined when the statement wrote none. */
  const makeKey = async (statement: string, id: PartnerId): Promise<string | undefined> => {
    const apiKey = generateApiKey(id);
    const parameters = [id, hashApiKey(apiKey), apiKeyPrefix(apiKey)];
    const rows = await database.query(statement, parameters);
    return rows.length === 0 ? undefined : apiKey;
  };
  return {
    async list() {
      return (await database.query<PartnerRow>(sql.listPartners)).map(fromRow);
    },
    async add(id) {
      const apiKey = await makeKey(sql.addPartner, id);
      return apiKey === undefined ? { outcome: 'exists' } : { outcome: 'added', apiKey };
    },
    async addKey(id) {
      const apiKey = await makeKey(sql.addApiKey, id);
      return apiKey === undefined ? { outcome: 'no-partner' } : { outcome: 'added', apiKey };
    },
    async revokeKey(id, beginning) {
      const parameters = [id, beginning, hashApiKey(beginning)];
      const [row] = await database.query<{ named: number }>(sql.revokeApiKey, parameters);
      if (row!.named === 1) return { outcome: 'revoked' };
      return { outcome: row!.named === 0 ? 'no-such-key' : 'several-keys' };
    },
  };
}

function fromRow({ id, keys }: PartnerRow): ListedPartner {
  return {
    id,
    keys: keys.map(({ prefix, created_at: createdAt, revoked_at: revokedAt }) => ({
      prefix,
      createdAt: new Date(createdAt),
      revokedAt: revokedAt === null ? null : new Date(revokedAt),
    })),
  };
}

/** A partner that a launcher or a test wants to be there. */
export type PartnerSeed = {
  id: PartnerId;
  apiKey: string;
  webhookUrl: string;
  /** `whsec_` and 24 to 64 bytes in base64 (Standard Webhooks). */
  webhookSecret: string;
};

/**
 * Makes a partner with its key and webhook endpoint; a second call changes nothing, and a call
 * with another URL or secret changes that.
 *
 * @throws when the API key belongs to another partner; nothing is changed then.
 */
export async function seedPartner(database: Database, seed: PartnerSeed): Promise<void> {
  await database.transaction(async (tx) => {
    const { id, apiKey, webhookUrl, webhookSecret } = seed;
    const key = apiKeyPrefix(apiKey);
    const parameters = [id, hashApiKey(apiKey), webhookUrl, webhookSecret, key];
    const rows = await tx.query<{ key_holder: string | null }>(sql.seedPartner, parameters);
    const holder = rows[0]?.key_holder ?? seed.id;
    if (holder !== seed.id) throw new Error(`the API key for ${seed.id} is another partner's`);
  });
}
