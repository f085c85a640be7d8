import type { LedgerStore } from '@triplock/ledger';
import { address, integer, type SettingsOf, text, withDefault } from '@triplock/runtime';
import { spannerEmulator } from './part.ts';

/** Loaded when the store is used: every service reads the settings of all stores. */
const loaded = () => import('./spanner-ledger.ts');

const settings = {
  /** A ledger in `spanner`: `projects/…/instances/…/databases/…`. */
  SPANNER_DATABASE: withDefault(text, undefined),
  /** `host:port` of an emulator; absent for Cloud Spanner. */
  SPANNER_EMULATOR_HOST: withDefault(address, undefined),
  /** The database role, where fine-grained access control is used. */
  SPANNER_DATABASE_ROLE: withDefault(text, undefined),
  /** Transactions of this process at once. The emulator runs one and aborts the others. */
  SPANNER_TRANSACTIONS_MAX: withDefault(integer({ min: 1, max: 1_000 }), 10),
};

type Settings = SettingsOf<typeof settings>;

/** The ledger in Cloud Spanner. */
export const spannerLedgerStore = {
  title: 'Spanner',
  parts: [spannerEmulator.name],
  brings: spannerEmulator,
  settings,
  needs: ['SPANNER_DATABASE'],
  advice: {
    SPANNER_DATABASE:
      'the ledger as projects/…/instances/…/databases/…: LEDGER_STORE=spanner has it',
    SPANNER_EMULATOR_HOST: 'host:port of an emulator, where that stands for Spanner',
  },
  settingsAt: ({ spanner }, database) => ({
    SPANNER_DATABASE: `projects/triplock/instances/triplock/databases/${database}`,
    SPANNER_EMULATOR_HOST: String(spanner),
    // It runs one at a time: those of a process queue up, instead of aborting one another.
    SPANNER_TRANSACTIONS_MAX: '1',
  }),
  // The emulator's commits cost the square of their rows.
  postRowsMax: 25,
  open: async (given, { callLimitMs, transactionsMax }) => {
    const { openPorts } = await loaded();
    return openPorts({
      ...placeIn(given),
      ...(callLimitMs !== undefined && { callLimitMs }),
      ...(transactionsMax !== undefined && { transactionsMax }),
    });
  },
  apart: {
    provision: async (given, how) => {
      const { provision } = await loaded();
      const { database, emulatorHost } = placeIn(given);
      return provision({ database, emulatorHost: emulatorHost! }, how);
    },
    migrate: async (given) => (await loaded()).migrate(placeIn(given)),
    addressIn: ({ SPANNER_DATABASE }) => SPANNER_DATABASE!,
    openCopy: async (given, copyTo) => (await loaded()).openCopy(placeIn(given), copyTo),
    inspect: async (given) => (await loaded()).inspect(placeIn(given)),
  },
  cannot: {
    givePendingBack:
      'a pending transaction is given back by this command only where the ledger is in PostgreSQL (docs/stores.md)',
  },
} as const satisfies LedgerStore<typeof settings>;

/** Where Spanner is; it is only asked where the settings name it. */
function placeIn(given: Settings) {
  return {
    database: given.SPANNER_DATABASE!,
    emulatorHost: given.SPANNER_EMULATOR_HOST,
    role: given.SPANNER_DATABASE_ROLE,
    transactionsMax: given.SPANNER_TRANSACTIONS_MAX,
  };
}
