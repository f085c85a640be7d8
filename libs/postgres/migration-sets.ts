import type { MigrationSet } from './migrate.ts';

const root = new URL('../../', import.meta.url);
const folder = (path: string) => new URL(`${path}/`, root);

/**
 * Every owner's migrations in the order they run. The inbox is a set of tables that each consumer
 * with an effect has in its own schema, so that an inbox row and its effect commit together.
 */
export const migrationSets: readonly MigrationSet[] = [
  { owner: 'roles', schema: 'public', folder: folder('libs/postgres/migrations') },
  { owner: 'ledger', schema: 'ledger', folder: folder('libs/ledger/postgres/migrations') },
  { owner: 'claims', schema: 'claims', folder: folder('libs/stores/claims-postgres/migrations') },
  { owner: 'partners', schema: 'partners', folder: folder('libs/partners/postgres/migrations') },
  { owner: 'notifier-inbox', schema: 'notifier', folder: folder('libs/inbox/postgres/migrations') },
  { owner: 'notifier', schema: 'notifier', folder: folder('services/partner-notifier/migrations') },
  {
    owner: 'settlement-inbox',
    schema: 'settlement',
    folder: folder('libs/inbox/postgres/migrations'),
  },
  {
    owner: 'settlement',
    schema: 'settlement',
    folder: folder('services/settlement-feed/migrations'),
  },
  { owner: 'auditor', schema: 'auditor', folder: folder('services/auditor/migrations') },
];
