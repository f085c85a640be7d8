import { topics } from '@triplock/contracts';
import { ledgerSettings, missingForLedger } from '@triplock/ledgers';
import {
  address,
  integer,
  readSettings,
  serviceSettings,
  text,
  url,
  withDefault,
} from '@triplock/runtime';
import { kafkaSettings, missingForKafka } from '@triplock/transport';

/** The settings of outbox-dispatcher. */
export const settings = {
  ...serviceSettings,
  ...ledgerSettings,
  /** As the role triplock_dispatcher; used where the ledger is in `postgres`. */
  DATABASE_URL: url(['postgres:', 'postgresql:']),
  PUBSUB_PROJECT_ID: text,
  /** `host:port` of an emulator; absent for Cloud Pub/Sub. */
  PUBSUB_EMULATOR_HOST: withDefault(address, undefined),
  EVENTS_TOPIC: withDefault(text, topics.events),
  ...kafkaSettings,
  /** Where events are kept before they are published, for a database that is set back. */
  TOLD_TOPIC: withDefault(text, topics.told),
  /**
   * How long a bucket stays with a dispatcher that died. The others ask every third of it, so that
   * with 6 s a takeover is done in 8. Two thirds of it must be longer than a publish may take.
   */
  LEASE_MS: withDefault(integer({ min: 6_000, max: 60_000 }), 6_000),
  /** How long a published event stays in the outbox, and can be published again by `republish`. */
  OUTBOX_RETENTION_HOURS: withDefault(integer({ min: 24, max: 87_600 }), 720),
  /**
   * Ordering keys of the events, which the 64 buckets share. Few make large requests; Pub/Sub takes
   * 1 MB a second of each (cloud.google.com/pubsub/quotas). It may change at any time, dispatcher
   * after dispatcher: a payment's events keep their order by their sequence, in each inbox.
   */
  ORDERING_KEYS: withDefault(integer({ min: 1, max: 64 }), 64),
  /** Rows of one pass: 32 of a bucket in one request, where more saves little. */
  TAKE_ROWS_MAX: withDefault(integer({ min: 64, max: 10_000 }), 2_000),
};

/** The settings as read. */
export type Config = ReturnType<typeof readConfig>;

/** @throws SettingsError with every problem at once. */
export function readConfig() {
  return readSettings(process.env, settings, [
    ...missingForLedger(process.env),
    ...missingForKafka(process.env),
  ]);
}
