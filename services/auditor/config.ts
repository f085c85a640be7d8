import { claimSettings, missingForClaims } from '@triplock/claim-stores';
import { subscriptionSettings } from '@triplock/consumer';
import { topics } from '@triplock/contracts';
import {
  integer,
  isSet,
  readSettings,
  serviceSettings,
  text,
  url,
  withDefault,
} from '@triplock/runtime';
import { accountSettings } from '@triplock/providers';
import { kafkaSettings, missingForKafka } from '@triplock/transport';
import { isCopied, ledgerSettings, missingForLedger } from '@triplock/ledgers';

/** The settings of auditor. */
export const settings = {
  ...serviceSettings,
  ...ledgerSettings,
  ...subscriptionSettings('auditor'),
  /**
   * Where a ledger in a database of its own is copied to, as the role triplock_copy: the schema
   * `ledger` of this one, which the checks read.
   */
  LEDGER_COPY_URL: withDefault(url(['postgres:', 'postgresql:']), undefined),
  /** The gateways' own, to read; in PostgreSQL as the role triplock_auditor. */
  ...claimSettings,
  /** Claims that are compared with the ledger in a second, by all auditors together. */
  CLAIMS_COMPARED_PER_SECOND: withDefault(integer({ min: 1, max: 100_000 }), 1_000),
  ...kafkaSettings,
  ACCEPTED_TOPIC: withDefault(text, topics.accepted),
  DEAD_LETTER_TOPIC: withDefault(text, topics.deadLetter),
  /** The ledger worker's consumer group, whose lag says what is still in flight. */
  LEDGER_GROUP: withDefault(text, 'ledger-worker'),
  /**
   * The auditor's own, which reads the accepted topic; dead letters are read by another beside it.
   */
  AUDITOR_GROUP: withDefault(text, 'auditor'),
  /**
   * Whose journals are compared with the ledger, by keys of its own that only read. Of a provider
   * that payments name and that has none here the audit says that it could not be compared.
   */
  ...accountSettings,
  /** Until a page is given up and asked for again. */
  PROVIDER_TIMEOUT_MS: withDefault(integer({ min: 100, max: 80_000 }), 10_000),
  /**
   * Pages of each provider are read no faster. Stripe allows 25 reads a second in test mode, 100
   * in live mode.
   */
  PROVIDER_READS_PER_SECOND: withDefault(integer({ min: 1, max: 100 }), 10),
  /** From one scheduled audit to the next; however many auditors run, they take turns. */
  AUDIT_EVERY_MS: withDefault(integer({ min: 100, max: 86_400_000 }), 60_000),
  /** What is in flight for longer than this is reported as drift by the scheduled audit. */
  AUDIT_OVERDUE_MS: withDefault(integer({ min: 0, max: 86_400_000 }), 300_000),
  /**
   * What still waits for a customer so long after that one's time was over is drift: a worker
   * should have ended it. A bank and a partner's endpoint are waited for without end.
   */
  AUDIT_OVERDUE_CUSTOMER_MS: withDefault(integer({ min: 0, max: 31 * 86_400_000 }), 3_600_000),
};

/** Reads the settings, or throws a SettingsError that names all problems. */
export function readConfig() {
  const missing = [
    ...missingForClaims(process.env, 'walk'),
    ...missingForLedger(process.env),
    ...missingForKafka(process.env),
    ...missingForCopy(process.env),
  ];
  return readSettings(process.env, settings, missing);
}

function missingForCopy(environment: NodeJS.ProcessEnv): string[] {
  const store = environment['LEDGER_STORE']?.trim();
  if (!isCopied(store) || isSet(environment, 'LEDGER_COPY_URL')) return [];
  return [`LEDGER_COPY_URL is missing: LEDGER_STORE=${store} needs it`];
}

/** The settings as read. */
export type Config = ReturnType<typeof readConfig>;
