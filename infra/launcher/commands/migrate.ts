import { migrate, migrationSets } from '@triplock/postgres';
import { migrateSpanner, spannerMigrationSets } from '@triplock/ledger-spanner';
import { UsageError } from '../errors.ts';
import { atDatabase } from './at-database.ts';
import { runCommand } from './run-command.ts';

const help = `
npm run migrate

Brings the schema of a database up to date, for a system that is not on this machine: the launcher
and docker compose do it by themselves at every \`up\`. Run again, it does nothing. A database that is
of a newer version, or whose migrations were edited, is left as it is.

  --json    prints { postgres: [{ owner, file }], spanner: [{ owner, file }] }: what was run
  --help

DATABASE_URL           PostgreSQL, as the database's owner, which may make roles
SPANNER_DATABASE       the ledger's as well, projects/…/instances/…/databases/…, where it is in
                       Spanner; SPANNER_EMULATOR_HOST where that is an emulator
`;

await runCommand({
  name: 'migrate',
  help,
  options: { json: { type: 'boolean' } },
  run: async ({ values }) => {
    const { DATABASE_URL: url, SPANNER_DATABASE: database } = process.env;
    if (!url) {
      throw new UsageError("DATABASE_URL is not set: give the database's URL, as its owner");
    }
    const say = values.json ? process.stderr : process.stdout;
    const postgres = await atDatabase(url, () => migrate(url, migrationSets));
    say.write(`postgres: ran ${postgres.length} migrations\n`);
    const emulatorHost = process.env['SPANNER_EMULATOR_HOST'];
    const spanner = database
      ? await atDatabase(database, () =>
          migrateSpanner({ database, emulatorHost }, spannerMigrationSets),
        )
      : [];
    if (database) say.write(`spanner: ran ${spanner.length} migrations\n`);
    if (values.json) process.stdout.write(`${JSON.stringify({ postgres, spanner }, null, 2)}\n`);
  },
});
