import {
  address,
  integer,
  readSettings,
  serviceSettings,
  text,
  url,
  withDefault,
} from '@triplock/runtime';

/** The settings of settlement-feed. */
export const settings = {
  ...serviceSettings,
  DATABASE_URL: url(['postgres:', 'postgresql:']),
  PUBSUB_PROJECT_ID: text,
  /** The emulator's `host:port`; absent, the real service is used. */
  PUBSUB_EMULATOR_HOST: withDefault(address, undefined),
  EVENTS_SUBSCRIPTION: withDefault(text, 'settlement-feed'),
  /**
   * How long the inbox remembers an event: no shorter than Pub/Sub delivers it again, and than the
   * dispatchers keep it for publishing again. Both are compared.
   */
  INBOX_RETENTION_HOURS: withDefault(integer({ min: 24, max: 87_600 }), 720),
  /** Messages in hand at once. */
  EVENTS_IN_FLIGHT_MAX: withDefault(integer({ min: 1, max: 10_000 }), 256),
};

/** Reads the settings, or throws a SettingsError that names all problems. */
export function readConfig() {
  return readSettings(process.env, settings);
}

/** The settings as read. */
export type Config = ReturnType<typeof readConfig>;
