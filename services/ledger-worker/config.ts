import { topics } from '@triplock/contracts';
import { ledgerSettings, missingForLedger } from '@triplock/ledgers';
import {
  integer,
  isSet,
  oneOf,
  port,
  readSettings,
  sealingKeys,
  serviceSettings,
  text,
  url,
  withDefault,
  type Setting,
} from '@triplock/runtime';
import { kafkaSettings, missingForKafka } from '@triplock/transport';

/** Two, because one follows the other while it is rotated. */
const webhookSecrets: Setting<readonly string[]> = {
  expected: 'a secret that begins with whsec_, or two separated by a comma',
  parse: (value) => {
    const secrets = value.split(',').map((each) => each.trim());
    return secrets.length <= 2 && secrets.every((each) => /^whsec_\S{8,}$/.test(each))
      ? secrets
      : undefined;
  },
};

/** The settings of ledger-worker. */
export const settings = {
  ...serviceSettings,
  ...ledgerSettings,
  ...kafkaSettings,
  /** As the role triplock_ledger; used where the ledger is in `postgres`. */
  DATABASE_URL: url(['postgres:', 'postgresql:']),
  /**
   * Whether production starts where a standby streams and commits wait for none. After a failover
   * to one that lacks something nothing is decided before `npm run rewind`.
   */
  ASYNCHRONOUS_STANDBYS: withDefault(oneOf(['refused', 'accepted']), 'refused' as const),
  ACCEPTED_TOPIC: withDefault(text, topics.accepted),
  DEAD_LETTER_TOPIC: withDefault(text, topics.deadLetter),
  /** Where dispatchers keep what was told, for a ledger that was set back. */
  TOLD_TOPIC: withDefault(text, topics.told),
  /** The account that cards are charged for; a test key charges nobody. */
  STRIPE_API_KEY: text,
  /** Another URL that speaks Stripe's API, such as the simulator. */
  STRIPE_API_URL: withDefault(url(['http:', 'https:']), undefined),
  /**
   * Stripe's webhooks come in here, at `POST /stripe/webhooks`: what waits for a customer or a bank
   * is then final within a second. Without a port nothing listens, and the resolver finds out by
   * itself, within a minute or so. Any one of several workers may get them.
   */
  WEBHOOKS_HOST: withDefault(text, '127.0.0.1'),
  WEBHOOKS_PORT: withDefault(port, undefined),
  /**
   * What Stripe signs them with, as its dashboard or `stripe listen` shows it; needed with a port.
   * To rotate it give both, the new one and the old one, until Stripe no longer signs with the old
   * one.
   */
  STRIPE_WEBHOOK_SECRETS: withDefault(webhookSecrets, []),
  /** Until a call to the provider is given up as unknown. Stripe's own answers take 1 to 3 s. */
  PROVIDER_TIMEOUT_MS: withDefault(integer({ min: 100, max: 80_000 }), 10_000),
  /** Transactions at the provider at once, for batches and the resolver: as many connections. */
  CHARGES_MAX: withDefault(integer({ min: 1, max: 1_000 }), 64),
  /**
   * How long a batch waits for one of its charges before it goes on. Work that outlasts this goes
   * on too, but after a crash it waits for the resolver, and not for a redelivery alone.
   */
  HAND_OVER_MS: withDefault(integer({ min: 0, max: 60_000 }), 1_000),
  /**
   * How long a customer may take to authenticate before the payment is given up: from when the
   * provider answered that it has to, by the clock of the ledger's database.
   */
  ACTION_EXPIRES_MS: withDefault(integer({ min: 1_000, max: 7 * 86_400_000 }), 86_400_000),
  /** What customers have to do is sealed with, from a file: ACTION_KEYS_FILE. */
  ACTION_KEYS: sealingKeys,
  /** Workers of one group share the partitions. */
  LEDGER_GROUP: withDefault(text, 'ledger-worker'),
  /** Payments of one statement. Beyond 500 a payment gets no cheaper, and a bad one costs more. */
  POST_ROWS_MAX: withDefault(integer({ min: 1, max: 5_000 }), 500),
  /**
   * Statements under way at once. With two, one is made ready while the database does the other.
   */
  POST_STATEMENTS_MAX: withDefault(integer({ min: 1, max: 16 }), 2),
};

/** The settings as read. */
export type Config = ReturnType<typeof readConfig>;

/** @throws SettingsError with every problem at once. */
export function readConfig() {
  const missing = [
    ...missingForWebhooks(process.env),
    ...missingForLedger(process.env),
    ...missingForKafka(process.env),
  ];
  return readSettings(process.env, settings, missing);
}

/** A port without a secret, and a secret without a port, are both a mistake. */
function missingForWebhooks(environment: NodeJS.ProcessEnv): string[] {
  const pair = ['WEBHOOKS_PORT', 'STRIPE_WEBHOOK_SECRETS'] as const;
  const missing = pair.filter((name) => !isSet(environment, name));
  if (missing.length !== 1) return [];
  const [given] = pair.filter((name) => !missing.includes(name));
  return [`${missing[0]} is missing: ${given} needs it`];
}
