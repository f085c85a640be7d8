import { topics } from '@triplock/contracts';
import { ledgerSettings, missingForLedger } from '@triplock/ledgers';
import {
  missingForProviders,
  missingForReports,
  providerSettings,
  reportSettings,
} from '@triplock/providers';
import {
  integer,
  oneOf,
  port,
  readSettings,
  sealingKeys,
  serviceSettings,
  text,
  url,
  withDefault,
} from '@triplock/runtime';
import { kafkaSettings, missingForKafka } from '@triplock/transport';

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
  ...providerSettings,
  ...reportSettings,
  /**
   * The providers' webhooks come in here, at `POST /NAME/webhooks`: what waits for a customer or a
   * bank is then final within a second. Without a port nothing listens, and the resolver finds out
   * by itself, within a minute or so. Any one of several workers may get them.
   */
  WEBHOOKS_HOST: withDefault(text, '127.0.0.1'),
  WEBHOOKS_PORT: withDefault(port, undefined),
  /** Until a call to a provider is given up as unknown. Slow ones answer in 1 to 3 s. */
  PROVIDER_TIMEOUT_MS: withDefault(integer({ min: 100, max: 80_000 }), 10_000),
  /** Transactions at each provider at once, for batches and resolver: as many connections. */
  CHARGES_MAX: withDefault(integer({ min: 1, max: 1_000 }), 64),
  /**
   * How long a batch waits for one of its charges, and for its slot, before it goes on. Work that
   * outlasts this goes on too, but after a crash it waits for the resolver, and not for a
   * redelivery alone.
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
    ...missingForProviders(process.env),
    ...missingForReports(process.env, 'WEBHOOKS_PORT'),
    ...missingForLedger(process.env),
    ...missingForKafka(process.env),
  ];
  return readSettings(process.env, settings, missing);
}
