import { createHash, randomBytes } from 'node:crypto';
import type { PartnerId } from '@triplock/payments';
import { sealingKeys, type SealedText, type SealingKeys, type Setting } from '@triplock/runtime';

// Standard Webhooks 1.0 asks for 24 to 64 bytes. HMAC-SHA256 gains nothing from more than 32.
const secretBytes = 32;

/**
 * A new webhook secret in the form of Standard Webhooks 1.0: `whsec_` and random bytes in base64.
 */
export function generateWebhookSecret(): string {
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
