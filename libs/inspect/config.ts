import { claimStoreAdvice, claimStoreSettings } from '@triplock/claim-stores';
import { topics } from '@triplock/contracts';
import { ledgerSettings, ledgerStoreAdvice, neededForLedger } from '@triplock/ledgers';
import { webhookKeys } from '@triplock/partners';
import { accountSettings, providerAdvice } from '@triplock/providers';
import {
  address,
  addresses,
  modeSettings,
  readSettings,
  refusedInProduction,
  SettingsError,
  text,
  type Setting,
  url,
  withDefault,
} from '@triplock/runtime';
import { kafkaSettings, missingForKafka } from '@triplock/transport';
import { UsageError } from '@triplock/command';

const postgresUrl = url(['postgres:', 'postgresql:']);
const httpUrl = url(['http:', 'https:']);

const names: Setting<readonly string[]> = {
  expected: 'names, separated by commas',
  parse: (value) => {
    const parsed = value.split(',').map((each) => each.trim());
    return parsed.every((each) => each !== '') ? parsed : undefined;
  },
};

/** Where a system is. No command needs all of it, so that nothing is required here. */
export const settings = {
  ...modeSettings,
  /** As the database's owner; whoever only traces may be triplock_auditor. */
  DATABASE_URL: refusedInProduction(withDefault(postgresUrl, undefined), (url) =>
    url !== undefined && new URL(url).password === ''
      ? "it has no password, and the roles' are derived from the owner's: give it one"
      : undefined,
  ),
  /** As triplock_partners. */
  PARTNERS_DATABASE_URL: withDefault(postgresUrl, undefined),
  /** As triplock_operator, for the console. */
  OPERATOR_DATABASE_URL: withDefault(postgresUrl, undefined),
  /** What webhook secrets are sealed with, and were. */
  WEBHOOK_KEYS: withDefault(webhookKeys, undefined),
  ...ledgerSettings,
  ...kafkaSettings,
  KAFKA_BROKERS: withDefault(addresses, undefined),
  ACCEPTED_TOPIC: withDefault(text, topics.accepted),
  DEAD_LETTER_TOPIC: withDefault(text, topics.deadLetter),
  TOLD_TOPIC: withDefault(text, topics.told),
  PUBSUB_PROJECT_ID: withDefault(text, undefined),
  PUBSUB_EMULATOR_HOST: withDefault(address, undefined),
  EVENTS_TOPIC: withDefault(text, topics.events),
  /** The subscriptions of the consumers that keep in this database what they received. */
  EVENTS_SUBSCRIPTIONS: withDefault(names, [
    // --- subscriptions, by npm run generate
    'partner-notifier',
    'settlement-feed',
    'auditor',
    // --- end of subscriptions
  ]),
  /** The consumer groups of the workers and of the auditors, by their own settings' names. */
  LEDGER_GROUP: withDefault(text, 'ledger-worker'),
  AUDITOR_GROUP: withDefault(text, 'auditor'),
  /** An auditor's operators' port. */
  AUDITOR_URL: withDefault(httpUrl, undefined),
  /** The claim store, by the gateways' own settings. */
  ...claimStoreSettings,
  /** Keys that only read, but for `give-back`; a provider without its own is not asked. */
  ...accountSettings,
  /** The demo's webhook receiver; there is none in production. */
  CATCHER_URL: withDefault(httpUrl, undefined),
};

/** The settings as read. */
export type Config = ReturnType<typeof readConfig>;

/**
 * Reads the settings.
 *
 * @throws UsageError that names every one that is malformed, or that the mode refuses.
 */
export function readConfig(environment: NodeJS.ProcessEnv = process.env) {
  try {
    return readSettings(environment, settings, missingForKafka(environment));
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    throw new UsageError(error.problems.join('\n'), { cause: error });
  }
}

/** What to give for a setting that is missing. */
const advice = {
  DATABASE_URL: "the database's URL, as its owner",
  PARTNERS_DATABASE_URL: "the database's URL, as triplock_partners",
  OPERATOR_DATABASE_URL: "the database's URL, as triplock_operator",
  WEBHOOK_KEYS: 'the keys of webhook secrets, by WEBHOOK_KEYS_FILE',
  KAFKA_BROKERS: 'some brokers as host:port, separated by commas',
  PUBSUB_PROJECT_ID: 'the project that the events topic is in',
  AUDITOR_URL: "the URL of an auditor's operators' port, such as http://auditor:9100",
  ...claimStoreAdvice,
  ...ledgerStoreAdvice,
  ...providerAdvice,
} as const;

/** A setting that some command cannot do without. */
export type NeededSetting = keyof typeof advice;

/** What whoever publishes again has to know of the outbox's store. */
export function outboxSettings({ LEDGER_STORE: store }: Config): NeededSetting[] {
  return ['PUBSUB_PROJECT_ID', ...neededForLedger(store)];
}

/**
 * The settings that a command cannot do without.
 *
 * @throws UsageError that says of each missing one what to set.
 */
export function required<Name extends NeededSetting>(
  config: Config,
  ...names: readonly Name[]
): { [Each in Name]: NonNullable<Config[Each]> } {
  const missing = names.filter((name) => config[name] === undefined);
  if (missing.length > 0) refuseWithout(missing);
  return config as { [Each in Name]: NonNullable<Config[Each]> };
}

/** @throws UsageError that says of each of these settings what to set. */
export function refuseWithout(missing: readonly string[]): never {
  const lines = missing.map((name) => `${name} is not set: give ${adviceFor(name)}`);
  throw new UsageError(lines.join('\n'));
}

function adviceFor(name: string): string {
  const known: Readonly<Record<string, string>> = advice;
  return known[name] ?? 'it';
}
