import {
  closeDatabase,
  closeToPublic,
  connectionLimits,
  limitConnections,
  migrate,
  migrationSets,
  openForCommand,
  OtherVersionError,
  rolePassword,
  type Database,
} from '@triplock/postgres';
import { CommandError } from '@triplock/command';
import { usualNames } from '../names.ts';
import { declarations, type RoleOfService } from '../services.ts';
import type { Report } from '../session.ts';

/** Who works in the database, without `triplock_`: each service, and those beside them. */
type Role = RoleOfService | 'claims' | 'copy' | 'partners' | 'operator';
const roles = [
  ...new Set([
    ...declarations.flatMap(({ role }) => role ?? []),
    'triplock_claims',
    'triplock_copy',
    'triplock_partners',
    'triplock_operator',
  ]),
];

/** The database's URL for each role. */
export type DatabaseUrls = Readonly<Record<Role, string>>;

/** The database as its owner sees it, and as each service does. */
export type ProvisionedDatabase = { owner: string; roles: DatabaseUrls };

/**
 * Brings the database up to the newest migration and gives every role its password.
 *
 * @param server the superuser's URL; a database that was given is used as it is, in our own server
 * one is made, called `name`, and nobody else gets into the others. `replicas` of each service are
 * what connections are limited to; without it limits stay as they are. `copied`: a ledger that is
 * in another store is copied here.
 * @throws CommandError in one sentence when the database is of another version; it is not touched.
 */
export async function provisionDatabase(
  server: {
    url: string;
    origin: 'given' | 'native';
    name?: string;
    replicas?: number;
    copied?: boolean;
  },
  report: Report,
): Promise<ProvisionedDatabase> {
  const { url, origin, name = usualNames.database, replicas, copied = false } = server;
  const owner = origin === 'given' ? url : await createDatabase(url, name);
  const applied = await migrate(owner, migrationSets).catch((error: unknown) =>
    refuseOtherVersion(error),
  );
  if (applied.length > 0) report(`postgres: ran ${applied.length} migrations`);
  await withDatabase(owner, async (database) => {
    for (const role of roles) {
      // Also after somebody who had a role's rights gave it another, which no right forbids.
      // ALTER ROLE takes no parameters; the password is base64url and needs no quoting.
      await database.query(`ALTER ROLE ${role} PASSWORD '${rolePassword(owner, role)}'`);
    }
    await closeDatabase(database, { copied });
    if (replicas !== undefined) await limitConnections(database, connectionLimits(replicas));
  });
  return { owner, roles: databaseUrls(owner) };
}

/** The URL of each role, which follows from the owner's. */
export function databaseUrls(owner: string): DatabaseUrls {
  const urls = roles.map((role) => [role.replace('triplock_', ''), urlFor(owner, role)]);
  return Object.fromEntries(urls) as DatabaseUrls;
}

function refuseOtherVersion(error: unknown): never {
  if (!(error instanceof OtherVersionError)) throw error;
  throw new CommandError(`postgres: ${error.message}`, { cause: error });
}

/** Opens a database for a moment. */
export async function withDatabase<Result>(
  url: string,
  work: (database: Database) => Promise<Result>,
): Promise<Result> {
  const database = openForCommand({
    url,
    applicationName: 'launcher',
    connectionsMax: 1,
  });
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

async function createDatabase(serverUrl: string, name: string): Promise<string> {
  await withDatabase(serverUrl, async (database) => {
    const found = await database.query('SELECT 1 FROM pg_database WHERE datname = $1', [name]);
    if (found.length === 0) await database.query(`CREATE DATABASE ${name}`);
    // In a server of ours they are for its superuser alone; template0 takes no connections.
    await closeToPublic(database, ['postgres', 'template1']);
  });
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

function urlFor(owner: string, role: string): string {
  const url = new URL(owner);
  url.username = role;
  url.password = rolePassword(owner, role);
  return url.href;
}
