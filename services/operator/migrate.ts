import {
  closeDatabase,
  migrate as migratePostgres,
  migrationSets,
  openForCommand,
} from '@triplock/postgres';
import { migrateSpanner, spannerMigrationSets } from '@triplock/ledger-spanner';
import { runCommand } from './command.ts';
import { readConfig, required } from './config.ts';
import { atAddress, type Caller } from './operator.ts';

const help = `
npm run migrate

Brings the schema of a database up to date, for a system that is not on this machine: the launcher
and docker compose do it by themselves at every \`up\`. Run again, it does nothing. A database that is
of a newer version, or whose migrations were edited, is left as it is. Nobody but the services' roles
may connect to it afterwards, and nobody but its owner make temporary tables there.

  --json    prints { postgres: [{ owner, file }], spanner: [{ owner, file }] }: what was run
  --help

DATABASE_URL           PostgreSQL, as the database's owner, which may make roles
SPANNER_DATABASE       the ledger's as well, projects/…/instances/…/databases/…, where it is in
                       Spanner; SPANNER_EMULATOR_HOST where that is an emulator
`;

/** `migrate`: brings the schema of a database up to date. */
export function migrate(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'migrate',
      help,
      options: { json: { type: 'boolean' } },
      run: async ({ values }) => {
        const config = readConfig();
        const { DATABASE_URL: url } = required(config, 'DATABASE_URL');
        const { SPANNER_DATABASE: database, SPANNER_EMULATOR_HOST: emulatorHost } = config;
        const out = values.json ? process.stderr : process.stdout;
        const postgres = await atAddress(url, () => migratePostgres(url, migrationSets));
        await atAddress(url, () => closeToOthers(url));
        out.write(`postgres: ran ${postgres.length} migrations\n`);
        const spanner =
          database === undefined
            ? []
            : await atAddress(database, () =>
                migrateSpanner({ database, emulatorHost }, spannerMigrationSets),
              );
        if (database !== undefined) out.write(`spanner: ran ${spanner.length} migrations\n`);
        if (values.json) {
          process.stdout.write(`${JSON.stringify({ postgres, spanner }, null, 2)}\n`);
        }
      },
    },
    caller.args,
  );
}

/** A dump that was restored is open to every role again, whatever had been run before it. */
async function closeToOthers(url: string): Promise<void> {
  const database = openForCommand({ url, applicationName: 'migrate', connectionsMax: 1 });
  await closeDatabase(database).finally(() => database.close());
}
