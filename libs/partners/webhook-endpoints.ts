import { createHash, randomBytes } from 'node:crypto';
import type { IdempotencyKey, PartnerId } from '@triplock/payments';
import { loadStatements, type Database } from '@triplock/postgres';
import { sealingKeys, type SealedText, type SealingKeys, type Setting } from '@triplock/runtime';
import { targetHost } from './target-policy.ts';

const sql = loadStatements(import.meta.url, 'postgres/webhook-endpoints.sql', [
  'showEndpoint',
  'setWebhookUrl',
  'rotateWebhookSecret',
]);

/** A webhook endpoint as its partner may see it. */
export type ShownEndpoint = {
  url: string;
  /** Whether its server has proved that it wants webhooks; nothing is sent there before. */
  verified: boolean;
  /** Until when the secret before the newest signs too. */
  previousSecretUntil?: Date;
  /** When its URL or its secret was last set. */
  updatedAt: Date;
  /** Since when nothing is sent there, because its server answered 410 Gone. */
  disabledAt?: Date;
};

/**
 * The answer is the only time that a secret is shown: no one with the gateway's rights reads it.
 */
export type SetEndpoint =
  | { outcome: 'made'; endpoint: ShownEndpoint; secret: string }
  | { outcome: 'changed'; endpoint: ShownEndpoint };

/** What a rotation made: the new secret signs at once, beside the one before it. */
export type Rotation = { secret: string; previousSecretUntil: Date };

/** What rotating came to. `replayed`: the key had rotated before, to this; nothing was written. */
export type RotatedSecret =
  ({ outcome: 'rotated' | 'replayed' } & Rotation) | { outcome: 'no-endpoint' };

/** Webhook endpoints as partners manage them. Every method rejects without PostgreSQL. */
export type WebhookEndpoints = {
  show(partnerId: PartnerId): Promise<ShownEndpoint | undefined>;
  /**
   * Sets the URL, which was judged before, and enables the endpoint. The next attempt at every
   * delivery goes there, once it is verified.
   */
  setUrl(endpoint: { partnerId: PartnerId; url: string }): Promise<SetEndpoint>;
  /**
   * A new secret, once per key; the last two keys are known, and of older ones no secret signs. The
   * secret before it signs too for 24 h or until the next rotation, so that a receiver may change
   * over at any time in between; at most two sign.
   *
   * @throws MissingWebhookKeyError for a key of before whose secret was sealed with one that is not
   * there.
   */
  rotateSecret(rotation: { partnerId: PartnerId; key: IdempotencyKey }): Promise<RotatedSecret>;
};

type Row = {
  url: string;
  verified: boolean;
  second_secret_until: Date | null;
  updated_at: Date;
  disabled_at: Date | null;
};

type RotationRow = { secret: SealedSecret; previous_secret_until: Date };

/** Webhook endpoints in PostgreSQL, where all clocks are the database's. */
export function openWebhookEndpoints(database: Database, keys: WebhookKeys): WebhookEndpoints {
  return {
    async show(partnerId) {
      const [row] = await database.query<Row>(sql.showEndpoint, [partnerId]);
      return row && fromRow(row);
    },
    async setUrl({ partnerId, url }) {
      const secret = generateWebhookSecret();
      const sealed = JSON.stringify(keys.seal(partnerId, secret));
      const parameters = [partnerId, url, sealed, targetHost(new URL(url))];
      const [row] = await database.query<Row & { made: boolean }>(sql.setWebhookUrl, parameters);
      const endpoint = fromRow(row!);
      if (row!.made) return { outcome: 'made', endpoint, secret };
      return { outcome: 'changed', endpoint };
    },
    async rotateSecret({ partnerId, key }) {
      const offered = keys.seal(partnerId, generateWebhookSecret());
      const [row] = await database.query<RotationRow>(sql.rotateWebhookSecret, [
        partnerId,
        key,
        JSON.stringify(offered),
      ]);
      if (row === undefined) return { outcome: 'no-endpoint' };
      const { secret, previous_secret_until: previousSecretUntil } = row;
      const outcome = secret.id === offered.id ? 'rotated' : 'replayed';
      return { outcome, secret: keys.open(partnerId, secret), previousSecretUntil };
    },
  };
}

function fromRow(row: Row): ShownEndpoint {
  const { url, verified, second_secret_until: until, disabled_at: disabledAt } = row;
  return {
    url,
    verified,
    updatedAt: row.updated_at,
    ...(until === null ? {} : { previousSecretUntil: until }),
    ...(disabledAt === null ? {} : { disabledAt }),
  };
}

// Standard Webhooks 1.0 asks for 24 to 64 bytes. HMAC-SHA256 gains nothing from more than 32.
const secretBytes = 32;

/**
 * A new webhook secret in the form of Standard Webhooks 1.0: `whsec_` and random bytes in base64.
 */
function generateWebhookSecret(): string {
  return `whsec_${randomBytes(secretBytes).toString('base64')}`;
}

/** A webhook secret as it is stored, bound to its partner and its own id. */
export type SealedSecret = SealedText & {
  /** From SHA-256 of the secret: the same secret has the same id under every key. */
  id: string;
};

/** The keys that webhook secrets are sealed with: the newest seals, all of them open. */
export type WebhookKeys = {
  /** The id of the key that seals. */
  newest: string;
  seal(partnerId: PartnerId, secret: string): SealedSecret;
  /**
   * @throws MissingWebhookKeyError when the key is not among these, Error when what is stored was
   * altered or is another partner's.
   */
  open(partnerId: PartnerId, sealed: SealedSecret): string;
};

/** A stored secret cannot be opened here, whatever its partner does. */
export class UnopenedSecretError extends Error {}

/**
 * A secret is sealed with a key that this process was not given. Nothing is lost: whoever needs the
 * secret waits until the key is there again.
 */
export class MissingWebhookKeyError extends UnopenedSecretError {
  override name = 'MissingWebhookKeyError';
  constructor(partnerId: PartnerId, key: string) {
    super(
      `${partnerId}'s webhook secret is sealed with the key ${key}, which WEBHOOK_KEYS lacks: add it again, behind the newest`,
    );
  }
}

/** As {@link sealingKeys} reads them. */
export const webhookKeys: Setting<WebhookKeys> = {
  expected: sealingKeys.expected,
  parse(text) {
    const keys = sealingKeys.parse(text);
    return keys && createWebhookKeys(keys);
  },
};

/**
 * The keys in a text, such as a file's.
 *
 * @throws Error when it has none, or they are malformed.
 */
export function parseWebhookKeys(text: string): WebhookKeys {
  const keys = webhookKeys.parse(text);
  if (keys === undefined) throw new Error(`webhook keys: expected ${webhookKeys.expected}`);
  return keys;
}

function createWebhookKeys(keys: SealingKeys): WebhookKeys {
  return {
    newest: keys.newest,
    seal(partnerId, secret) {
      const id = idOfSecret(secret);
      return { id, ...keys.seal(boundTo(partnerId, id), secret) };
    },
    open(partnerId, sealed) {
      if (!keys.has(sealed.key)) throw new MissingWebhookKeyError(partnerId, sealed.key);
      try {
        return keys.open(boundTo(partnerId, sealed.id), sealed);
      } catch (cause) {
        throw new UnopenedSecretError(
          `${partnerId}'s webhook secret ${sealed.id} is not what was sealed`,
          { cause },
        );
      }
    },
  };
}

/** Secrets have 192 random bits at least, so that nobody finds one by its hash. */
function idOfSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url').slice(0, 22);
}

/** No partner's id has a slash. */
function boundTo(partnerId: PartnerId, id: string): string {
  return `${partnerId}/${id}`;
}
