import type { MigrationSet } from './migrate.ts';

const root = new URL('../../', import.meta.url);
const folder = (path: string) => new URL(`${path}/`, root);

/** Folders of services that have a schema of their own; their role has the same name. */
const serviceSchemas = [
  // --- schemas, by npm run generate
  { service: 'partner-notifier', schema: 'notifier', inbox: true, audit: true },
  { service: 'settlement-feed', schema: 'settlement', inbox: true, audit: false },
  { service: 'auditor', schema: 'auditor', inbox: false, audit: false },
  { service: 'console', schema: 'console', inbox: false, audit: false },
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

/** Who has the schema in which an audit looks. */
const auditor = 'auditor';

/** What it looks at there of one service alone. */
const auditedMore: readonly MigrationSet[] = serviceSchemas.flatMap(({ service, schema, audit }) =>
  audit
    ? [
        {
          owner: `${schema}-audit`,
          schema: auditor,
          folder: folder(`services/${service}/audit/migrations`),
        },
      ]
    : [],
);

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
  {
    owner: 'consumers',
    schema: 'consumers',
    folder: folder('libs/inbox/postgres/every-inbox/migrations'),
  },
  { owner: 'ledger', schema: 'ledger', folder: folder('libs/ledger/postgres/migrations') },
  { owner: 'claims', schema: 'claims', folder: folder('libs/stores/claims-postgres/migrations') },
  { owner: 'partners', schema: 'partners', folder: folder('libs/partners/postgres/migrations') },
  {
    owner: 'webhooks',
    schema: 'webhooks',
    folder: folder('libs/partners/postgres/webhooks/migrations'),
  },
  ...serviceSchemas.flatMap(({ service, schema, inbox }) => [
    ...(inbox
      ? [{ owner: `${schema}-inbox`, schema, folder: folder('libs/inbox/postgres/migrations') }]
      : []),
    { owner: schema, schema, folder: folder(`services/${service}/migrations`) },
    ...(schema === auditor ? auditedMore : []),
  ]),
];
