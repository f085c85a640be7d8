import type { IdempotencyKey, PartnerId } from '@triplock/payments';

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

/** Webhook endpoints as partners manage them. Every method rejects when PostgreSQL is away. */
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
