import {
  closeDatabase,
  connectionLimits,
  limitConnections,
  migrate as migratePostgres,
  migrationSets,
  openForCommand,
  unlimitedRoles,
} from '@triplock/postgres';
import {
  ledgerApart,
  ledgersApart,
  ledgerStoreAdvice,
  neededForLedger,
  type LedgerStoreName,
} from '@triplock/ledgers';
import { runCommand, UsageError } from '@triplock/command';
import { readConfig, required, atAddress, type Caller, type Config } from '@triplock/inspect';

/** Ledgers in a database of their own, which is migrated where the settings name it. */
const apart = ledgersApart.map((name) => ({ name, settings: neededForLedger(name) }));

const ofLedgers = Object.entries<string>(ledgerStoreAdvice).map(
  ([name, advice]) => `  ${name.padEnd(24)}${advice}`,
);

const help = `
npm run migrate

Brings the schema of a database up to date, for a system that is not on this machine: the launcher
and docker compose do it by themselves at every \`up\`. Run again, it does nothing. A database that is
of a newer version, or whose migrations were edited, is left as it is. Nobody but the services' roles
may connect to it afterwards, and nobody but its owner make temporary tables there.

  --replicas N  limits the connections of each role to what so many replicas of each service need,
            twice, for an upgrade, and some for people; without it limits stay as they are, and
            roles without one are named
  --json    prints { postgres: [{ owner, file }], ${ledgersApart.map((name) => `${name}: [{ owner, file }], `).join('')}unlimited: [role] }:
            what was run, and which roles have no limit
  --help

DATABASE_URL is PostgreSQL, as the database's owner, which may make roles. A ledger in a database of
its own is migrated as well where the settings name it, and the role of its copy may log in then:

${ofLedgers.join('\n')}
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
        const named = apart.filter(({ settings }) =>
          settings.every((setting) => config[setting] !== undefined),
        );
        const replicas = replicasOf(values.replicas);
        const out = values.json ? process.stderr : process.stdout;
        const postgres = await atAddress(url, () => migratePostgres(url, migrationSets));
        const unlimited = await atAddress(url, () =>
          limitAccess(url, { replicas, copied: named.length > 0 }),
        );
        out.write(`postgres: ran ${postgres.length} migrations\n`);
        if (unlimited.length > 0) {
          out.write(`no limit of connections has ${unlimited.join(', ')}: give --replicas N\n`);
        }
        const ran: Record<string, readonly Migration[]> = { postgres };
        for (const { name } of apart) ran[name] = [];
        for (const { name } of named) {
          const applied = await migrateApart(name, config);
          ran[name] = applied;
          out.write(`${name}: ran ${applied.length} migrations\n`);
        }
        if (values.json) {
          process.stdout.write(`${JSON.stringify({ ...ran, unlimited }, null, 2)}\n`);
        }
      },
    },
    caller.args,
  );
}

type Migration = { owner: string; file: string };

function migrateApart(name: LedgerStoreName, config: Config): Promise<Migration[]> {
  const ledger = ledgerApart(name)!;
  return atAddress(ledger.addressIn(config), () => ledger.migrate(config));
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
