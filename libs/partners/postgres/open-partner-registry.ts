import type { PartnerId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import { apiKeyPrefix, generateApiKey, hashApiKey } from '../api-key.ts';
import type { ListedPartner, PartnerRegistry } from '../partner-registry.ts';

const listPartners = loadSql(import.meta.url, 'list-partners.sql');
const addPartner = loadSql(import.meta.url, 'add-partner.sql');
const addApiKey = loadSql(import.meta.url, 'add-api-key.sql');
const revokeApiKey = loadSql(import.meta.url, 'revoke-api-key.sql');

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
      return (await database.query<PartnerRow>(listPartners)).map(fromRow);
    },
    async add(id) {
      const apiKey = await makeKey(addPartner, id);
      return apiKey === undefined ? { outcome: 'exists' } : { outcome: 'added', apiKey };
    },
    async addKey(id) {
      const apiKey = await makeKey(addApiKey, id);
      return apiKey === undefined ? { outcome: 'no-partner' } : { outcome: 'added', apiKey };
    },
    async revokeKey(id, beginning) {
      const parameters = [id, beginning, hashApiKey(beginning)];
      const [row] = await database.query<{ named: number }>(revokeApiKey, parameters);
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
