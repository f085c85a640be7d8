import { postgresLedgerStore, type CopyLedger, type LedgerPorts } from '@triplock/ledger';
import { spannerLedgerStore } from '@triplock/ledger-spanner';
import type { Database } from '@triplock/postgres';
import { oneOf, withDefault, type SettingsOf } from '@triplock/runtime';

/** Every store that a ledger can be kept in, by its name in LEDGER_STORE: a line each. */
const stores = {
  postgres: postgresLedgerStore,
  spanner: spannerLedgerStore,
};

/** A store's name in LEDGER_STORE. */
export type LedgerStoreName = keyof typeof stores;

type Kind = (typeof stores)[LedgerStoreName];
type All<Union> = (Union extends unknown ? (each: Union) => void : never) extends (
  all: infer Each,
) => void
  ? Each
  : never;

const names = Object.keys(stores) as [LedgerStoreName, ...LedgerStoreName[]];
const ownSettings = Object.assign(
  {},
  ...Object.values(stores).map(({ settings }) => settings),
) as All<Kind['settings']>;

/** Settings of every service that touches the ledger, for its settings table. */
export const ledgerSettings = {
  /** Where the ledger and its outbox are kept. */
  LEDGER_STORE: withDefault(oneOf(names), 'postgres'),
  ...ownSettings,
};

/** The settings as read. */
export type LedgerSettings = SettingsOf<typeof ledgerSettings>;

/** What is missing of an environment for the ledger that it names. */
export function missingForLedger(environment: NodeJS.ProcessEnv): string[] {
  const name = names.find((each) => each === environment['LEDGER_STORE']?.trim());
  return name === undefined ? [] : stores[name].missing(environment);
}

/** Every port of the ledger that the settings name, and that name. */
export type LedgerStore = LedgerPorts & { store: LedgerStoreName };

/**
 * Opens the ledger that the settings name. It connects when first used.
 *
 * @param limits.callLimitMs until a single call is given up; a pool of PostgreSQL has its own
 * limit.
 */
export async function openLedgerStore(
  settings: LedgerSettings,
  openPostgres: () => Database,
  limits: { callLimitMs?: number } = {},
): Promise<LedgerStore> {
  const store = settings.LEDGER_STORE;
  return { store, ...(await stores[store].open(settings, { openPostgres, ...limits })) };
}

/** Whether the audit's SQL finds the ledger itself in PostgreSQL, or needs a copy there. */
export function isCopied(store: string | undefined): boolean {
  const name = names.find((each) => each === store);
  return name !== undefined && stores[name].openCopy !== undefined;
}

/** Copies a ledger that is kept elsewhere into PostgreSQL. `undefined`: it is there already. */
export async function openLedgerCopy(
  settings: LedgerSettings,
  copyTo: () => Database,
): Promise<{ copy: CopyLedger; close(): Promise<void> } | undefined> {
  return stores[settings.LEDGER_STORE].openCopy?.(settings, copyTo());
}
