import type { LedgerStore } from '@triplock/ledger';
import { address, integer, type SettingsOf, text, withDefault } from '@triplock/runtime';
import { copyLedgerFrom } from './copy/copy-ledger.ts';
import { openSpannerFollowUps } from './follow-ups.ts';
import { inspectSpanner } from './inspector.ts';
import { openSpannerOutbox } from './outbox.ts';
import { spannerEmulator } from './part.ts';
import { openSpannerLedger } from './payments.ts';
import { openSpanner } from './spanner/database.ts';
import {
  createInEmulator,
  isInEmulator,
  migrateSpanner,
  spannerMigrationSets,
} from './spanner/schema.ts';
import { takeDueFromSpanner, wakeDueInSpanner } from './unfinished.ts';

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
    const database = await openSpanner({
      ...placeIn(given),
      ...(callLimitMs !== undefined && { callLimitMs }),
      ...(transactionsMax !== undefined && { transactionsMax }),
    });
    return {
      ledger: openSpannerLedger(database),
      followUps: openSpannerFollowUps(database),
      outbox: openSpannerOutbox(database),
      takeDue: takeDueFromSpanner(database),
      wakeDue: wakeDueInSpanner(database),
    };
  },
  apart: {
    provision: async (given, { mayMake }) => {
      const { database, emulatorHost } = placeIn(given);
      const emulator = { database, emulatorHost: emulatorHost! };
      if (!mayMake) return (await isInEmulator(emulator)) ? 'there' : 'gone';
      return (await createInEmulator(emulator)).made ? 'made' : 'there';
    },
    migrate: (given) => migrateSpanner(placeIn(given), spannerMigrationSets),
    addressIn: ({ SPANNER_DATABASE }) => SPANNER_DATABASE!,
    openCopy: async (given, copyTo) => {
      const spanner = await openSpanner(placeIn(given));
      return { copy: copyLedgerFrom(spanner, copyTo), close: () => spanner.close() };
    },
    inspect: (given) => inspectSpanner(() => openSpanner(placeIn(given))),
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
