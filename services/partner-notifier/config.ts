import { consumerSettings } from '@triplock/consumer';
import { targetPolicies, webhookKeys } from '@triplock/partners';
import {
  integer,
  oneOf,
  readSettings,
  refusedInProduction,
  serviceSettings,
  withDefault,
} from '@triplock/runtime';

const hour = 3_600_000;
const many = integer({ min: 1, max: 1_000 });
const aSecond = integer({ min: 1, max: 1_000_000 });

/** The settings of partner-notifier. */
export const settings = {
  ...serviceSettings,
  ...consumerSettings('partner-notifier'),
  /** What webhook secrets are sealed with, from a file: WEBHOOK_KEYS_FILE. */
  WEBHOOK_KEYS: webhookKeys,
  /**
   * How long a delivered webhook can still be looked at and sent again, and its event stands in its
   * partner's feed.
   */
  DELIVERIES_RETENTION_HOURS: withDefault(integer({ min: 24, max: 87_600 }), 2_160),
  /**
   * How long a webhook that was given up can still be sent again, and one that is parked waits for
   * an endpoint.
   */
  UNDELIVERED_RETENTION_HOURS: withDefault(integer({ min: 24, max: 87_600 }), 2_160),
  /** Webhooks under way at once from this process, and leased by it: never more. */
  WEBHOOKS_IN_FLIGHT_MAX: withDefault(many, 256),
  /**
   * Of these, from all processes together, to one partner and to one host, which several partners
   * may name: dead endpoints leave slots, and a server gets what it is thought to bear.
   */
  WEBHOOKS_PER_PARTNER_MAX: withDefault(many, 64),
  WEBHOOKS_PER_HOST_MAX: withDefault(many, 128),
  /** How many are begun in a second, and at once after a rest, also from all processes together. */
  WEBHOOKS_PER_PARTNER_PER_SECOND: withDefault(aSecond, 2_000),
  WEBHOOKS_PER_HOST_PER_SECOND: withDefault(aSecond, 4_000),
  /**
   * Whether an endpoint has to prove that it wants webhooks before it gets any. Production allows
   * nothing else.
   */
  WEBHOOK_VERIFICATION: refusedInProduction(
    withDefault(oneOf(['required', 'off']), 'required'),
    (policy) =>
      policy === 'required' ? undefined : 'partners could aim webhooks at any server: unset it',
  ),
  /** Where webhooks may go; by default, what the mode allows. Production allows `public` alone. */
  WEBHOOK_TARGETS: refusedInProduction(
    withDefault(oneOf(targetPolicies), undefined),
    (targets = 'public') =>
      targets === 'public' ? undefined : 'partners could have what is inside called: unset it',
  ),
  /** How long one attempt may take, from the look-up of the name to the head of the answer. */
  WEBHOOK_TIMEOUT_MS: withDefault(integer({ min: 100, max: 60_000 }), 15_000),
  /** The pause after the first failed attempt; it doubles up to the longest one. */
  WEBHOOK_RETRY_FIRST_MS: withDefault(integer({ min: 1, max: hour }), 5_000),
  WEBHOOK_RETRY_LONGEST_MS: withDefault(integer({ min: 1, max: 24 * hour }), hour),
  /**
   * An endpoint is disabled by the first attempt that fails so long after the one since which all
   * failed, until its partner sets it again; but only if what it attempts has been tried for 12
   * hours, or half of this or of WEBHOOK_GIVE_UP_AFTER_MS where that is less.
   */
  WEBHOOK_DISABLE_AFTER_HOURS: withDefault(integer({ min: 1, max: 2_160 }), 120),
  /** No attempt is begun later than this after the first one. */
  WEBHOOK_GIVE_UP_AFTER_MS: withDefault(integer({ min: 0, max: 30 * 24 * hour }), 24 * hour),
};

/** Reads the settings, or throws a SettingsError that names all problems. */
export function readConfig() {
  return readSettings(process.env, settings);
}

/** The settings as read. */
export type Config = ReturnType<typeof readConfig>;
