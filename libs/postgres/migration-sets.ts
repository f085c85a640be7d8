import type { MigrationSet } from './migrate.ts';

const root = new URL('../../', import.meta.url);
const folder = (path: string) => new URL(`${path}/`, root);

/** Folders of services that have a schema of their own; their role has the same name. */
const serviceSchemas = [
  // --- schemas, by npm run generate
  { service: 'partner-notifier', schema: 'notifier', inbox: true },
  { service: 'settlement-feed', schema: 'settlement', inbox: true },
  { service: 'auditor', schema: 'auditor', inbox: false },
  { service: 'console', schema: 'console', inbox: false },
  // --- end of schemas
] as const;

/** A role that the migrations make: for the libs, or with a service's schema. */
export type DatabaseRole = `triplock_${
  | 'ledger'
  | 'dispatcher'
  | 'copy'
  | 'gateway'
  | 'claims'
  | 'partners'
  | 'operator'
  | (typeof serviceSchemas)[number]['schema']}`;

/**
 * Every owner's migrations in the order they run: roles and schemas, then the libs, then the
 * services. The inbox is a set of tables that each consumer with an effect has in its own schema,
 * so that an inbox row and its effect commit together; `consumers` are all of them as one.
 */
export const migrationSets: readonly MigrationSet[] = [
  { owner: 'roles', schema: 'public', folder: folder('libs/postgres/migrations') },
  ...serviceSchemas.map(({ schema }) => ({
    owner: `${schema}-schema`,
    schema,
    folder: folder('libs/postgres/service-schema/migrations'),
  })),
  { owner: 'consumers', schema: 'consumers', folder: folder('libs/inbox/postgres/every-inbox') },
  { owner: 'ledger', schema: 'ledger', folder: folder('libs/ledger/postgres/migrations') },
  { owner: 'claims', schema: 'claims', folder: folder('libs/stores/claims-postgres/migrations') },
  { owner: 'partners', schema: 'partners', folder: folder('libs/partners/postgres/migrations') },
  ...serviceSchemas.flatMap(({ service, schema, inbox }) => [
    ...(inbox
      ? [{ owner: `${schema}-inbox`, schema, folder: folder('libs/inbox/postgres/migrations') }]
      : []),
    { owner: schema, schema, folder: folder(`services/${service}/migrations`) },
  ]),
];
