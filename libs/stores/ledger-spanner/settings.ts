import { address, integer, isSet, text, withDefault, type SettingsOf } from '@triplock/runtime';

/** Settings of every service whose ledger is in Spanner. */
export const spannerSettings = {
  /** A ledger in `spanner`: `projects/…/instances/…/databases/…`. */
  SPANNER_DATABASE: withDefault(text, undefined),
  /** `host:port` of an emulator; absent for Cloud Spanner. */
  SPANNER_EMULATOR_HOST: withDefault(address, undefined),
  /** The database role, where fine-grained access control is used. */
  SPANNER_DATABASE_ROLE: withDefault(text, undefined),
  /** Transactions of this process at once. The emulator runs one and aborts the others. */
  SPANNER_TRANSACTIONS_MAX: withDefault(integer({ min: 1, max: 1_000 }), 10),
};

/** The settings as read. */
export type SpannerSettings = SettingsOf<typeof spannerSettings>;

/** What is missing of an environment whose ledger is in Spanner. */
export function missingForSpanner(environment: NodeJS.ProcessEnv): string[] {
  if (isSet(environment, 'SPANNER_DATABASE')) return [];
  return ['SPANNER_DATABASE is missing: LEDGER_STORE=spanner needs it'];
}

/** Where the settings say that Spanner is; it is only asked where they name it. */
export function spannerOptionsOf(settings: SpannerSettings) {
  return {
    database: settings.SPANNER_DATABASE!,
    emulatorHost: settings.SPANNER_EMULATOR_HOST,
    role: settings.SPANNER_DATABASE_ROLE,
    transactionsMax: settings.SPANNER_TRANSACTIONS_MAX,
  };
}
