import type { Database } from '@triplock/postgres';
import { openSpanner } from '@triplock/spanner';
import type { LedgerSettings } from './ledger-settings.ts';
import type { Ledger } from './ledger.ts';
import type { Outbox } from './outbox.ts';
import { openPostgresLedger } from './postgres/open-postgres-ledger.ts';
import { openPostgresOutbox } from './postgres/open-postgres-outbox.ts';
import { openPostgresRefunds } from './postgres/open-postgres-refunds.ts';
import { takeDueFrom } from './postgres/take-due.ts';
import { wakeDueIn } from './postgres/wake-due.ts';
import type { Refunds } from './refunds.ts';
import { openSpannerLedger } from './spanner/open-spanner-ledger.ts';
import { openSpannerOutbox } from './spanner/open-spanner-outbox.ts';
import { openSpannerRefunds } from './spanner/open-spanner-refunds.ts';
import { takeDueFromSpanner } from './spanner/take-due.ts';
import { wakeDueInSpanner } from './spanner/wake-due.ts';
import type { TakeDue, WakeDue } from './unfinished.ts';

/** Every port of one ledger, over one connection: closing the ledger or the outbox closes it. */
export type LedgerStore = {
  store: LedgerSettings['LEDGER_STORE'];
  ledger: Ledger;
  refunds: Refunds;
  outbox: Outbox;
  takeDue: TakeDue;
  wakeDue: WakeDue;
};

/**
 * Opens the ledger that the settings name. It connects when first used.
 *
 * @param limits.callLimitMs until a single call to Spanner is given up; a pool of PostgreSQL has
 * its own limit.
 */
export async function openLedgerStore(
  settings: LedgerSettings,
  openPostgres: () => Database,
  limits: { callLimitMs?: number } = {},
): Promise<LedgerStore> {
  const { LEDGER_STORE: store } = settings;
  switch (store) {
    case 'postgres': {
      const database = openPostgres();
      return {
        store,
        ledger: openPostgresLedger(database),
        refunds: openPostgresRefunds(database),
        outbox: openPostgresOutbox(database),
        takeDue: takeDueFrom(database),
        wakeDue: wakeDueIn(database),
      };
    }
    case 'spanner': {
      const database = await openSpanner({ ...spannerPlaceOf(settings), ...limits });
      return {
        store,
        ledger: openSpannerLedger(database),
        refunds: openSpannerRefunds(database),
        outbox: openSpannerOutbox(database),
        takeDue: takeDueFromSpanner(database),
        wakeDue: wakeDueInSpanner(database),
      };
    }
    default:
      return store satisfies never;
  }
}

/** Where the settings say that Spanner is; it is only asked where they name it. */
export function spannerPlaceOf(settings: LedgerSettings) {
  return {
    database: settings.SPANNER_DATABASE!,
    emulatorHost: settings.SPANNER_EMULATOR_HOST,
    role: settings.SPANNER_DATABASE_ROLE,
    transactionsMax: settings.SPANNER_TRANSACTIONS_MAX,
  };
}
