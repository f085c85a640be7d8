import { openLedgerStore, type LedgerStore } from '@triplock/ledgers';
import type { Database } from '@triplock/postgres';
import type { System } from './system.ts';

/** Opens the ledger of a system, wherever it is kept. Closing its outbox closes the connection. */
export function openLedgerOf(
  { endpoints }: Pick<System, 'endpoints'>,
  openPostgres: () => Database,
): Promise<LedgerStore> {
  const settings = {
    LEDGER_STORE: endpoints.ledger,
    SPANNER_DATABASE: endpoints.spannerDatabase,
    SPANNER_EMULATOR_HOST: endpoints.spanner,
    SPANNER_DATABASE_ROLE: undefined,
    SPANNER_TRANSACTIONS_MAX: 1,
  };
  return openLedgerStore(settings, openPostgres);
}
