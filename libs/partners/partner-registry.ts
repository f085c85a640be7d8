import { currentApiVersion, type KeyScope } from '@triplock/contracts';
import type { CardNumbersIn, EndpointId, PartnerId } from '@triplock/payments';
import { loadStatements, type Database } from '@triplock/postgres';
import { apiKeyPrefix, generateApiKey, hashApiKey } from './api-keys.ts';
import { targetHost } from './target-policy.ts';
import { MissingWebhookKeyError, type SealedSecret, type WebhookKeys } from './webhook-secrets.ts';

const sql = loadStatements(import.meta.url, 'postgres/partner-registry.sql', [
  'listPartners',
  'addPartner',
  'addApiKey',
  'revokeApiKey',
  'setCardNumbers',
  'lockSeeds',
  'seedPartner',
  'listActs',
  'takeOlderSeals',
  'countKeySeals',
  'replaceSeals',
]);

/** What may be known of an API key. */
export type ListedKey = {
  id: string;
  /** The beginning of the key; null for one that was made before beginnings were kept. */
  prefix: string | null;
  scope: KeyScope;
  createdAt: Date;
  /** Null for one that does not expire. */
  expiresAt: Date | null;
  /** To within some minutes; null for one that was never used. */
  lastUsedAt: Date | null;
  /** Null while it is good. */
  revokedAt: Date | null;
};

/** What is asked of a new key. */
export type KeyWishes = {
  scope?: KeyScope;
  /** In the future, and at most five years from now. */
  expiresAt?: Date;
};

/** A partner and its keys, the oldest first. */
export type ListedPartner = { id: PartnerId; cardNumbersIn: CardNumbersIn; keys: ListedKey[] };

/** Who manages a partner, and why: written by the statement that does it. */
export type PartnerActor = { by: string; why: string | null };

/** What was done to a partner, its keys or its endpoint, by an operator or by itself. */
export type PartnerAct = PartnerActor & {
  act: string;
  partner: PartnerId;
  /** Which key, URL or secret, by what may be shown of it. */
  subject: string | null;
  at: Date;
};

/** What sealing secrets anew came to, by endpoint. One whose key is not there keeps its secrets. */
export type Resealed = {
  resealed: number;
  unreadable: { partner: PartnerId; why: string }[];
  /** New API keys that stay under another key, until they are used or for a day. */
  apiKeysLeft: number;
};

/** Partners as an operator manages them. Every method rejects without PostgreSQL. */
export type PartnerRegistry = {
  list(): Promise<ListedPartner[]>;
  /** The newest 1 000 acts on a partner, or on all, the newest last. */
  acts(of?: PartnerId): Promise<PartnerAct[]>;
  /** Makes a partner with its first key, whose whole text is never to be had again. */
  add(
    id: PartnerId,
    actor: PartnerActor,
  ): Promise<{ outcome: 'added'; apiKey: string } | { outcome: 'exists' }>;
  /**
   * Gives a partner one more key, good at once, for everything and for ever unless its wishes
   * say less. The others go on, so that the partner may change over at any time before they are
   * revoked.
   */
  addKey(
    id: PartnerId,
    actor: PartnerActor,
    wishes?: KeyWishes,
  ): Promise<
    { outcome: 'added'; apiKey: string } | { outcome: 'no-partner' } | { outcome: 'wrong-expiry' }
  >;
  /**
   * Revokes the key that begins so, or that is the whole text. Gateways know of it within 5 s.
   * Nothing is done when several begin so.
   */
  revokeKey(
    id: PartnerId,
    beginning: string,
    actor: PartnerActor,
  ): Promise<{ outcome: 'revoked' | 'no-such-key' | 'several-keys' }>;
  /**
   * Lets a partner's texts look like the numbers of payment cards in these fields and in no others.
   * Gateways know of it within 5 s. `unchanged`: so it was, and no act is written.
   */
  setCardNumbers(
    id: PartnerId,
    fields: CardNumbersIn,
    actor: PartnerActor,
  ): Promise<{ outcome: 'set' | 'unchanged' | 'no-partner' }>;
  /**
   * Seals every webhook secret with the newest key that is not, endpoint by endpoint: a crash
   * leaves the rest to the next call, and both keys are needed until one has come to its end. An
   * endpoint that is rotated meanwhile is looked at once more.
   */
  resealSecrets(keys: WebhookKeys, actor: PartnerActor): Promise<Resealed>;
};

type KeyRow = {
  id: string;
  prefix: string | null;
  scope: KeyScope;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  revoked_at: string | null;
};
type PartnerRow = { id: PartnerId; card_numbers_in: CardNumbersIn; keys: KeyRow[] };

/** Partners in PostgreSQL, for a role that may write them. */
export function openPartnerRegistry(database: Database): PartnerRegistry {
  return {
    async list() {
      return (await database.query<PartnerRow>(sql.listPartners)).map(fromRow);
    },
    acts: (of) => database.query<PartnerAct>(sql.listActs, [of ?? null, actsMax]),
    async add(id, { by, why }) {
      const apiKey = generateApiKey(id);
      const key = [hashApiKey(apiKey), apiKeyPrefix(apiKey)];
      const parameters = [id, ...key, by, why, currentApiVersion];
      const rows = await database.query(sql.addPartner, parameters);
      return rows.length === 0 ? { outcome: 'exists' } : { outcome: 'added', apiKey };
    },
    async addKey(id, { by, why }, { scope = 'full', expiresAt = null } = {}) {
      const apiKey = generateApiKey(id);
      const key = [hashApiKey(apiKey), apiKeyPrefix(apiKey)];
      const parameters = [id, ...key, by, why, scope, expiresAt, currentApiVersion];
      const [row] = await database.query<{ made: boolean; known: boolean }>(
        sql.addApiKey,
        parameters,
      );
      if (row!.made) return { outcome: 'added', apiKey };
      return { outcome: row!.known ? 'wrong-expiry' : 'no-partner' };
    },
    async revokeKey(id, beginning, { by, why }) {
      const parameters = [id, beginning, hashApiKey(beginning), by, why];
      const [row] = await database.query<{ named: number }>(sql.revokeApiKey, parameters);
      if (row!.named === 1) return { outcome: 'revoked' };
      return { outcome: row!.named === 0 ? 'no-such-key' : 'several-keys' };
    },
    async setCardNumbers(id, fields, { by, why }) {
      const parameters = [id, fields, by, why];
      const [row] = await database.query<{ changed: boolean }>(sql.setCardNumbers, parameters);
      if (row === undefined) return { outcome: 'no-partner' };
      return { outcome: row.changed ? 'set' : 'unchanged' };
    },
    resealSecrets: (keys, actor) => resealSecrets(database, keys, actor),
  };
}

const actsMax = 1_000;
const resealedAtOnce = 100;
// The nil UUID (RFC 9562, section 5.9) is nobody's, and before every other.
const noEndpoint = '00000000-0000-0000-0000-000000000000';

type SealedRow = {
  endpoint_id: EndpointId;
  partner_id: PartnerId;
  secrets: SealedSecret[];
  rotations: { key: string; secret: SealedSecret; until: string }[];
};

async function resealSecrets(
  database: Database,
  keys: WebhookKeys,
  { by, why }: PartnerActor,
): Promise<Resealed> {
  const result: Resealed = { resealed: 0, unreadable: [], apiKeysLeft: 0 };
  for (let after = noEndpoint; ;) {
    const parameters = [keys.newest, after, resealedAtOnce];
    const rows = await database.query<SealedRow>(sql.takeOlderSeals, parameters);
    if (rows.length === 0) {
      const [left] = await database.query<{ others: number }>(sql.countKeySeals, [keys.newest]);
      return { ...result, apiKeysLeft: left!.others };
    }
    for (const { endpoint_id: id, partner_id: partner, secrets, rotations } of rows) {
      const anew = (each: SealedSecret) => keys.seal(partner, keys.open(partner, each));
      try {
        const next = rotations.map((each) => ({ ...each, secret: anew(each.secret) }));
        const seals = [secrets, rotations, secrets.map(anew), next].map((x) => JSON.stringify(x));
        const written = [id, ...seals, keys.newest, by, why];
        const done = await database.query(sql.replaceSeals, written);
        // It was rotated in between: it is read again.
        if (done.length === 0) break;
        result.resealed += 1;
      } catch (error) {
        if (!(error instanceof MissingWebhookKeyError)) throw error;
        result.unreadable.push({ partner, why: error.message });
      }
      after = id;
    }
  }
}

function fromRow({ id, card_numbers_in, keys }: PartnerRow): ListedPartner {
  return {
    id,
    cardNumbersIn: card_numbers_in,
    keys: keys.map(({ created_at, expires_at, last_used_at, revoked_at, ...key }) => ({
      ...key,
      createdAt: new Date(created_at),
      expiresAt: timeOrNull(expires_at),
      lastUsedAt: timeOrNull(last_used_at),
      revokedAt: timeOrNull(revoked_at),
    })),
  };
}

function timeOrNull(text: string | null): Date | null {
  return text === null ? null : new Date(text);
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
 * Makes a partner with its key and first webhook endpoint, which counts as verified; a second call
 * changes nothing, and a call with another URL or secret changes that.
 *
 * @throws when the API key belongs to another partner; nothing is changed then.
 */
export async function seedPartner(
  database: Database,
  seed: PartnerSeed,
  keys: WebhookKeys,
): Promise<void> {
  await database.transaction(async (tx) => {
    await tx.query(sql.lockSeeds, [seed.id]);
    const { id, apiKey, webhookUrl, webhookSecret } = seed;
    const key = apiKeyPrefix(apiKey);
    const sealed = JSON.stringify(keys.seal(id, webhookSecret));
    const host = targetHost(new URL(webhookUrl));
    const endpoint = [webhookUrl, sealed, key, host];
    const parameters = [id, hashApiKey(apiKey), ...endpoint, currentApiVersion];
    const rows = await tx.query<{ key_holder: string | null }>(sql.seedPartner, parameters);
    const holder = rows[0]?.key_holder ?? seed.id;
    if (holder !== seed.id) throw new Error(`the API key for ${seed.id} is another partner's`);
  });
}
