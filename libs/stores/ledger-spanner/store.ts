import type { LedgerStoreKind } from '@triplock/ledger';
import { address, integer, isSet, type SettingsOf, text, withDefault } from '@triplock/runtime';
import { copyLedgerFrom } from './copy/copy-ledger.ts';
import { openSpannerOutbox } from './outbox.ts';
import { openSpannerLedger } from './payments.ts';
import { openSpannerFollowUps } from './follow-ups.ts';
import { openSpanner } from './spanner/database.ts';
import { takeDueFromSpanner, wakeDueInSpanner } from './unfinished.ts';

/** Settings of every service whose ledger is in Spanner. */
const spannerSettings = {
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
type SpannerSettings = SettingsOf<typeof spannerSettings>;

/** What is missing of an environment whose ledger is in Spanner. */
function missingForSpanner(environment: NodeJS.ProcessEnv): string[] {
  if (isSet(environment, 'SPANNER_DATABASE')) return [];
  return ['SPANNER_DATABASE is missing: LEDGER_STORE=spanner needs it'];
}

/** Where the settings say that Spanner is; it is only asked where they name it. */
function spannerOptionsOf(settings: SpannerSettings) {
  return {
    database: settings.SPANNER_DATABASE!,
    emulatorHost: settings.SPANNER_EMULATOR_HOST,
    role: settings.SPANNER_DATABASE_ROLE,
    transactionsMax: settings.SPANNER_TRANSACTIONS_MAX,
  };
}

/** The ledger in Cloud Spanner, as a list of ledger stores names it. */
export const spannerLedgerStore: LedgerStoreKind<typeof spannerSettings> = {
  settings: spannerSettings,
  missing: missingForSpanner,
  open: async (settings, { callLimitMs }) => {
    const limits = callLimitMs === undefined ? {} : { callLimitMs };
    const database = await openSpanner({ ...spannerOptionsOf(settings), ...limits });
    return {
      ledger: openSpannerLedger(database),
      followUps: openSpannerFollowUps(database),
      outbox: openSpannerOutbox(database),
      takeDue: takeDueFromSpanner(database),
      wakeDue: wakeDueInSpanner(database),
    };
  },
  openCopy: async (settings, copyTo) => {
    const spanner = await openSpanner(spannerOptionsOf(settings));
    return { copy: copyLedgerFrom(spanner, copyTo), close: () => spanner.close() };
  },
};
