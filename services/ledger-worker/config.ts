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
