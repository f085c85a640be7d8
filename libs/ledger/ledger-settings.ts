import { address, integer, isSet, oneOf, text, withDefault } from '@triplock/runtime';

/** Settings of every service that touches the ledger, for its settings table. */
export const ledgerSettings = {
  /** Where the ledger and its outbox are kept. */
  LEDGER_STORE: withDefault(oneOf(['postgres', 'spanner']), 'postgres'),
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
export type LedgerSettings = {
  LEDGER_STORE: 'postgres' | 'spanner';
  SPANNER_DATABASE: string | undefined;
  SPANNER_EMULATOR_HOST: string | undefined;
  SPANNER_DATABASE_ROLE: string | undefined;
  SPANNER_TRANSACTIONS_MAX: number;
};

/** What is missing of an environment for the ledger that it names. */
export function missingForLedger(environment: NodeJS.ProcessEnv): string[] {
  const isSpanner = environment['LEDGER_STORE']?.trim() === 'spanner';
  if (!isSpanner || isSet(environment, 'SPANNER_DATABASE')) return [];
  return ['SPANNER_DATABASE is missing: LEDGER_STORE=spanner needs it'];
}
