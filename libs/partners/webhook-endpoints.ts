import { randomBytes } from 'node:crypto';
import type { IdempotencyKey, PartnerId } from '@triplock/payments';
import { loadStatements, type Database } from '@triplock/postgres';

const sql = loadStatements(import.meta.url, 'postgres/webhook-endpoints.sql', [
  'showEndpoint',
  'setWebhookUrl',
  'rotateWebhookSecret',
]);

/** A webhook endpoint as its partner may see it. */
export type ShownEndpoint = {
  url: string;
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
   * delivery goes there.
   */
  setUrl(endpoint: { partnerId: PartnerId; url: string }): Promise<SetEndpoint>;
  /**
   * A new secret, once per key; the last two keys are known, and of older ones no secret signs. The
   * secret before it signs too for 24 h or until the next rotation, so that a receiver may change
   * over at any time in between; at most two sign.
   */
  rotateSecret(rotation: { partnerId: PartnerId; key: IdempotencyKey }): Promise<RotatedSecret>;
};

type Row = {
  url: string;
  second_secret_until: Date | null;
  updated_at: Date;
  disabled_at: Date | null;
};

type RotationRow = { secret: string; previous_secret_until: Date };

/** Webhook endpoints in PostgreSQL, where all clocks are the database's. */
export function openWebhookEndpoints(database: Database): WebhookEndpoints {
  return {
    async show(partnerId) {
      const [row] = await database.query<Row>(sql.showEndpoint, [partnerId]);
      return row && fromRow(row);
    },
    async setUrl({ partnerId, url }) {
      const secret = generateWebhookSecret();
      const parameters = [partnerId, url, secret];
      const [row] = await database.query<Row & { made: boolean }>(sql.setWebhookUrl, parameters);
      const endpoint = fromRow(row!);
      if (row!.made) return { outcome: 'made', endpoint, secret };
      return { outcome: 'changed', endpoint };
    },
    async rotateSecret({ partnerId, key }) {
      const offered = generateWebhookSecret();
      const [row] = await database.query<RotationRow>(sql.rotateWebhookSecret, [
        partnerId,
        key,
        offered,
      ]);
      if (row === undefined) return { outcome: 'no-endpoint' };
      const { secret, previous_secret_until: previousSecretUntil } = row;
      const outcome = secret === offered ? 'rotated' : 'replayed';
      return { outcome, secret, previousSecretUntil };
    },
  };
}

function fromRow(row: Row): ShownEndpoint {
  const { url, second_secret_until: until, updated_at: updatedAt, disabled_at: disabledAt } = row;
  return {
    url,
    updatedAt,
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
