import {
  closeDatabase,
  connectionLimits,
  limitConnections,
  migrate as migratePostgres,
  migrationSets,
  openForCommand,
  unlimitedRoles,
} from '@triplock/postgres';
import { migrateSpanner, spannerMigrationSets } from '@triplock/ledger-spanner';
import { runCommand, UsageError } from '@triplock/command';
import { readConfig, required, atAddress, type Caller } from '@triplock/inspect';

const help = `
npm run migrate

Brings the schema of a database up to date, for a system that is not on this machine: the launcher
and docker compose do it by themselves at every \`up\`. Run again, it does nothing. A database that is
of a newer version, or whose migrations were edited, is left as it is. Nobody but the services' roles
may connect to it afterwards, and nobody but its owner make temporary tables there.

  --replicas N  limits the connections of each role to what so many replicas of each service need,
            twice, for an upgrade, and some for people; without it limits stay as they are, and
            roles without one are named
  --json    prints { postgres: [{ owner, file }], spanner: [{ owner, file }], unlimited: [role] }:
            what was run, and which roles have no limit
  --help

DATABASE_URL           PostgreSQL, as the database's owner, which may make roles
SPANNER_DATABASE       the ledger's as well, projects/…/instances/…/databases/…, where it is in
                       Spanner, which lets the role of its copy log in; SPANNER_EMULATOR_HOST where
                       that is an emulator
`;

/** `migrate`: brings the schema of a database up to date. */
export function migrate(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'migrate',
      help,
      options: { json: { type: 'boolean' }, replicas: { type: 'string' } },
      run: async ({ values }) => {
        const config = readConfig();
        const { DATABASE_URL: url } = required(config, 'DATABASE_URL');
        const { SPANNER_DATABASE: database, SPANNER_EMULATOR_HOST: emulatorHost } = config;
        const replicas = replicasOf(values.replicas);
        const out = values.json ? process.stderr : process.stdout;
        const postgres = await atAddress(url, () => migratePostgres(url, migrationSets));
        const unlimited = await atAddress(url, () =>
          limitAccess(url, { replicas, copied: database !== undefined }),
        );
        out.write(`postgres: ran ${postgres.length} migrations\n`);
        if (unlimited.length > 0) {
          out.write(`no limit of connections has ${unlimited.join(', ')}: give --replicas N\n`);
        }
        const spanner =
          database === undefined
            ? []
            : await atAddress(database, () =>
                migrateSpanner({ database, emulatorHost }, spannerMigrationSets),
              );
        if (database !== undefined) out.write(`spanner: ran ${spanner.length} migrations\n`);
        if (values.json) {
          process.stdout.write(`${JSON.stringify({ postgres, spanner, unlimited }, null, 2)}\n`);
        }
      },
    },
    caller.args,
  );
}

/** @throws UsageError when it is no number of replicas. */
function replicasOf(given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  if (/^[1-9]\d{0,2}$/.test(given)) return Number(given);
  throw new UsageError(`--replicas is a number from 1 to 999, not '${given}'`);
}

/**
 * A dump that was restored is open to every role again, whatever had been run before it. Gives the
 * roles that may have any number of connections.
 */
async function limitAccess(
  url: string,
  { replicas, copied }: { replicas: number | undefined; copied: boolean },
): Promise<string[]> {
  const database = openForCommand({ url, applicationName: 'migrate', connectionsMax: 1 });
  try {
    await closeDatabase(database, { copied });
    if (replicas !== undefined) await limitConnections(database, connectionLimits(replicas));
    return await unlimitedRoles(database);
  } finally {
    await database.close();
  }
}
