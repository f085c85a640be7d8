import {
  postgresLedgerStore,
  type CopyLedger,
  type LedgerApart,
  type LedgerOptions,
  type LedgerPorts,
  type LedgerStore,
} from '@triplock/ledger';
import { spannerLedgerStore } from '@triplock/ledger-spanner';
import type { Database } from '@triplock/postgres';
import {
  missingFor,
  oneOf,
  readSettings,
  together,
  withDefault,
  type PartDeclaration,
  type SettingsOf,
} from '@triplock/runtime';

/** What LEDGER_STORE can name: a store goes with its folder and its line. */
const listed = {
  postgres: postgresLedgerStore,
  spanner: spannerLedgerStore,
} as const;

type Listed = typeof listed;
/** A store's name in LEDGER_STORE. */
export type LedgerStoreName = keyof Listed;
/** A server that some store consists of. */
export type LedgerPart = Listed[LedgerStoreName]['parts'][number];

/** The names of all stores, the usual one first. */
export const ledgerStoreNames = Object.keys(listed) as [LedgerStoreName, ...LedgerStoreName[]];
const [usual] = ledgerStoreNames;
const stores: readonly LedgerStore[] = Object.values(listed);
const ownSettings = together(Object.values(listed).map(({ settings }) => settings));

/** The servers that a store consists of. */
export function partsOfLedger(name: LedgerStoreName): readonly LedgerPart[] {
  return listed[name].parts;
}

/** The servers that stores bring along. */
export const ledgerParts = stores.flatMap(
  ({ brings }) => brings ?? [],
) as readonly PartDeclaration<LedgerPart>[];

/** Settings of every service that touches the ledger, for its settings table. */
export const ledgerSettings = {
  /** Where the ledger and its outbox are kept. */
  LEDGER_STORE: withDefault(oneOf(ledgerStoreNames), usual),
  ...ownSettings,
};

/** The settings as read. */
export type LedgerSettings = SettingsOf<typeof ledgerSettings>;
/** A setting that some store cannot do without. */
export type NeededForLedger = keyof typeof ownSettings;

/** What to give for a setting that some store needs. */
export const ledgerStoreAdvice = Object.assign(
  {},
  ...stores.map(({ advice }) => advice),
) as Readonly<Record<NeededForLedger, string>>;

/** What LEDGER_STORE takes, for the help of a command. */
export const ledgerStoreWords = ledgerStoreNames
  .map((name) => {
    const { needs } = ledgerStoreNamed(name);
    const place = needs.length > 0 ? ` with ${needs.join(' and ')}` : '';
    return `${name}${name === usual ? ' (default)' : ''}${place}`;
  })
  .join(', or ');

/** The names of those that are in a database of their own. */
export const ledgersApart = ledgerStoreNames.filter((name) => isCopied(name));

/** What is missing of an environment for the ledger that it names. */
export function missingForLedger(environment: NodeJS.ProcessEnv): string[] {
  // Another name is malformed, which the table says.
  const name = ledgerStoreNames.find((each) => each === environment['LEDGER_STORE']?.trim());
  if (name === undefined) return [];
  return missingFor(`LEDGER_STORE=${name}`, { environment, needs: neededForLedger(name) });
}

/** The settings that a store cannot do without. */
export function neededForLedger(name: LedgerStoreName): readonly NeededForLedger[] {
  return listed[name].needs;
}

/** Where a ledger is, read from an environment. @throws SettingsError. */
export function readLedgerStore(environment: NodeJS.ProcessEnv): LedgerSettings {
  return readSettings(environment, ledgerSettings, missingForLedger(environment));
}

/** Every port of the ledger that the settings name, and that name. */
export type OpenedLedger = LedgerPorts & { store: LedgerStoreName };

/** Opens the ledger that the settings name. It connects when first used. */
export async function openLedgerStore(
  settings: LedgerSettings,
  openPostgres: LedgerOptions['openPostgres'],
  limits: Omit<LedgerOptions, 'openPostgres'> = {},
): Promise<OpenedLedger> {
  const store = settings.LEDGER_STORE;
  const ports = await ledgerStoreNamed(store).open(settings, { openPostgres, ...limits });
  return { store, ...ports };
}

/** Whether the audit's SQL finds the ledger itself in PostgreSQL, or needs a copy there. */
export function isCopied(store: string | undefined): boolean {
  const name = ledgerStoreNames.find((each) => each === store);
  return name !== undefined && ledgerApart(name) !== undefined;
}

/** Copies a ledger that is kept elsewhere into PostgreSQL. `undefined`: it is there already. */
export async function openLedgerCopy(
  settings: LedgerSettings,
  copyTo: () => Database,
): Promise<{ copy: CopyLedger; close(): Promise<void> } | undefined> {
  return ledgerApart(settings.LEDGER_STORE)?.openCopy(settings, copyTo());
}

/** What a store has beside the services' own database; nothing where the ledger is in that. */
export function ledgerApart(name: LedgerStoreName): LedgerApart | undefined {
  return ledgerStoreNamed(name).apart;
}

/** A store of the list, as any of them is. */
export function ledgerStoreNamed(name: LedgerStoreName): LedgerStore {
  return listed[name];
}
