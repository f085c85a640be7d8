import { LauncherError, UsageError } from './launcher-error.ts';
import type { Names } from './names.ts';
import type { OptionalPartName } from './parts/part.ts';
import type { Addresses } from './parts/start-parts.ts';
import type { DatabaseUrls } from './provision/database.ts';
import { pubsubProject } from './provision/pubsub-rest.ts';

/** Where the ledger and its outbox are kept. */
export type LedgerStore = (typeof ledgerStores)[number];

export const ledgerStores = ['postgres', 'spanner'] as const;

/** The part that a ledger needs beside the usual ones. */
export function partsForLedger(store: LedgerStore | undefined): OptionalPartName[] {
  return store === 'spanner' ? ['spanner'] : [];
}

/** The word after `--ledger`, or after what else it is asked for by. */
export function parseLedgerStore(
  text: string | undefined,
  asked = '--ledger ',
): LedgerStore | undefined {
  if (text === undefined) return undefined;
  const store = ledgerStores.find((each) => each === text);
  if (store === undefined) {
    throw new UsageError(`${asked}${text} is not known: it takes ${ledgerStores.join(' or ')}`);
  }
  return store;
}

/** The settings of every service that touches the ledger. */
export function ledgerSettings(wiring: {
  ledger: LedgerStore;
  addresses: Addresses;
  names: Pick<Names, 'database'>;
}): Readonly<Record<string, string>> {
  const { ledger, addresses, names } = wiring;
  switch (ledger) {
    case 'postgres':
      return {};
    case 'spanner': {
      const { database, emulatorHost } = spannerPlace(addresses, names);
      return {
        LEDGER_STORE: ledger,
        SPANNER_DATABASE: database,
        SPANNER_EMULATOR_HOST: emulatorHost,
        // It runs one at a time: those of a process take turns, instead of aborting one another.
        SPANNER_TRANSACTIONS_MAX: '1',
      };
    }
    default:
      return ledger satisfies never;
  }
}

/** What the worker gets beside it: the emulator's commits cost the square of their rows. */
export function batchSettings({
  ledger,
}: {
  ledger: LedgerStore;
}): Readonly<Record<string, string>> {
  return ledger === 'spanner' ? { POST_ROWS_MAX: '25' } : {};
}

/** What the auditor gets beside it: where it may copy the ledger to, for what reads it by SQL. */
export function copySettings(wiring: {
  ledger: LedgerStore;
  databases: Pick<DatabaseUrls, 'ledger'>;
}): Readonly<Record<string, string>> {
  return wiring.ledger === 'spanner' ? { LEDGER_COPY_URL: wiring.databases.ledger } : {};
}

/** The ledger's database in the Spanner emulator. */
export function spannerPlace({ spanner }: Addresses, { database }: Pick<Names, 'database'>) {
  if (spanner === undefined) {
    throw new LauncherError(
      'a ledger in spanner needs the Spanner emulator, which does not run here',
    );
  }
  const name = `projects/${pubsubProject}/instances/triplock/databases/${database}`;
  return { database: name, emulatorHost: spanner };
}
