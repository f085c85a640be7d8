import type { PartnerId } from '@triplock/payments';

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

/** Partners as their operator manages them. Every method rejects when PostgreSQL is away. */
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
   * Revokes the key that begins so, or that is the whole text. Gateways hear of it within 5 s.
   * Nothing is done when several begin so.
   */
  revokeKey(
    id: PartnerId,
    beginning: string,
  ): Promise<{ outcome: 'revoked' | 'no-such-key' | 'several-keys' }>;
};
