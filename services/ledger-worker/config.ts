import { topics } from '@triplock/contracts';
import {
  addresses,
  integer,
  readSettings,
  serviceSettings,
  text,
  url,
  withDefault,
} from '@triplock/runtime';

/** The settings of ledger-worker. */
const table = {
  ...serviceSettings,
  KAFKA_BROKERS: addresses,
  /** As the role triplock_ledger. */
  DATABASE_URL: url(['postgres:', 'postgresql:']),
  ACCEPTED_TOPIC: withDefault(text, topics.accepted),
  DEAD_LETTER_TOPIC: withDefault(text, topics.deadLetter),
  /** The account that cards are charged for; a test key charges nobody. */
  STRIPE_API_KEY: text,
  /** Another place that speaks Stripe's API, such as the simulator. */
  STRIPE_API_URL: withDefault(url(['http:', 'https:']), undefined),
  /** Until a call to the provider is given up as unknown. Stripe's own answers take 1 to 3 s. */
  PROVIDER_TIMEOUT_MS: withDefault(integer({ min: 100, max: 80_000 }), 10_000),
  /** Transactions at the provider at once, for batches and the resolver: as many connections. */
  CHARGES_MAX: withDefault(integer({ min: 1, max: 1_000 }), 64),
  /** How long a batch waits for one of its charges before others look after it. */
  HAND_OVER_MS: withDefault(integer({ min: 0, max: 60_000 }), 5_000),
  /** How long a customer may take to authenticate before the payment is given up. */
  ACTION_EXPIRES_HOURS: withDefault(integer({ min: 1, max: 168 }), 24),
  /** Workers of one group share the partitions. */
  LEDGER_GROUP: withDefault(text, 'ledger-worker'),
  /** Payments of one statement. Beyond 500 a payment gets no cheaper, and a bad one costs more. */
  POST_ROWS_MAX: withDefault(integer({ min: 1, max: 5_000 }), 500),
  /** Statements under way at once. With two, one is made ready while the database does the other. */
  POST_STATEMENTS_MAX: withDefault(integer({ min: 1, max: 16 }), 2),
};

/** The settings as read. */
export type Config = ReturnType<typeof readConfig>;

/** @throws SettingsError with every problem at once. */
export function readConfig() {
  return readSettings(process.env, table);
}
