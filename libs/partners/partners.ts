import type { PartnerId } from '@triplock/payments';

/** Where a partner's webhooks go. More than one secret only while they rotate, newest first. */
export type WebhookEndpoint = {
  url: string;
  secrets: readonly string[];
  /** Another one whenever the endpoint was changed. */
  version: string;
  /** Its server wants no more webhooks; until the partner sets it again, none is sent. */
  disabled?: true;
};

/** What an API key proves. */
export type Authentication =
  { outcome: 'authenticated'; partnerId: PartnerId } | { outcome: 'refused' };

/** Nothing is known about the key, and PostgreSQL cannot be asked: neither yes nor no is right. */
export class PartnersUnavailableError extends Error {
  override name = 'PartnersUnavailableError';
}

/** Partners as the other services need them: who sends, and where their webhooks go. */
export type Partners = {
  /**
   * Whose key it is, from memory for 5 s and then from PostgreSQL. While PostgreSQL is away a key
   * that was good goes on being good.
   *
   * @throws PartnersUnavailableError within 2 s when the key is unknown here and PostgreSQL is
   * away.
   */
  authenticate(apiKey: string): Promise<Authentication>;
  /**
   * Asked at every call, so that a new URL or secret counts at once. Calls at the same time share
   * a question that none of them came after.
   */
  webhookEndpoint(partnerId: PartnerId): Promise<WebhookEndpoint | undefined>;
  /**
   * Sends nothing more to an endpoint until its partner sets it again. Tells whether this call
   * disabled it: not so when it was disabled before, or when it was changed since it had this
   * version.
   */
  disableEndpoint(endpoint: { partnerId: PartnerId; version: string }): Promise<boolean>;
  /** Whether answers come from memory because PostgreSQL did not answer when it was last asked. */
  stale(): boolean;
  /** Whether any key was heard to be good, so that its partner gets in while PostgreSQL is away. */
  warm(): boolean;
  /** Resolves when PostgreSQL answers, and ends being stale; throws when it does not. */
  ping(): Promise<void>;
};
