import type { PartnerId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import { apiKeyPrefix, hashApiKey } from '../api-key.ts';

const seedPartnerSql = loadSql(import.meta.url, 'seed-partner.sql');

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
    const rows = await tx.query<{ key_holder: string | null }>(seedPartnerSql, parameters);
    const holder = rows[0]?.key_holder ?? seed.id;
    if (holder !== seed.id) throw new Error(`the API key for ${seed.id} is another partner's`);
  });
}
