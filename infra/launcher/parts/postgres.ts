import { chownSync, existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '@triplock/postgres';
import { runTool } from '../processes/run-tool.ts';
import type { Command } from '../processes/start-process.ts';
import type { Session } from '../session.ts';
import type { Fetched, Part, Site } from './part.ts';
import { placePostgres, type Place } from './postgres-place.ts';
import { findPostgres, type PostgresProgram } from './postgres-program.ts';
import { clearRemains } from './postgres-remains.ts';

/** The ledger, the outbox and the inboxes. */
export const postgres: Part = {
  name: 'postgres',
  title: 'PostgreSQL',
  given: { variable: 'DATABASE_URL', address: (value) => value },
  ports: [{ use: 'port', usual: 15_432, variable: 'TRIPLOCK_POSTGRES_PORT' }],
  fetch: fetchPostgres,
  address: ({ session, ports }) =>
    `postgres://postgres:${session.credentials.postgresPassword}@127.0.0.1:${ports['port']}/postgres`,
  probe,
  // SIGINT is its fast shutdown: SIGTERM waits for every client to leave (PostgreSQL manual, 18.5).
  stop: { signal: 'SIGINT', withinMs: 20_000 },
};

async function fetchPostgres(session: Session): Promise<Fetched> {
  const program = await findPostgres(session);
  return { picked: program.picked, command: (site) => command(program, site) };
}

async function command(program: PostgresProgram, site: Site): Promise<Command> {
  const { session, ports } = site;
  const place = placePostgres(session, { program, folder: site.folder });
  const cluster = join(place.folder, 'cluster');
  if (existsSync(cluster)) await clearRemains(session, cluster);
  else await initialise(session, place);
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
  return postgresCommand(place, 'postgres', ['-D', cluster, ...settings]);
}

/** Makes an empty cluster. It gets its name last, so that one that was cut off is made again. */
async function initialise(session: Session, place: Place): Promise<void> {
  const passwordFile = join(place.folder, 'password');
  const next = join(place.folder, 'cluster.next');
  rmSync(next, { recursive: true, force: true });
  writeFileSync(passwordFile, session.credentials.postgresPassword, { mode: 0o600 });
  if (place.user) chownSync(passwordFile, place.user.uid, place.user.gid);
  try {
    const access = ['--username=postgres', '--auth=scram-sha-256', `--pwfile=${passwordFile}`];
    const text = ['--encoding=UTF8', '--locale=C'];
    await runTool(session, {
      name: 'initdb',
      doing: 'making an empty PostgreSQL cluster',
      command: postgresCommand(place, 'initdb', ['-D', next, ...access, ...text]),
    });
  } finally {
    rmSync(passwordFile, { force: true });
  }
  renameSync(next, join(place.folder, 'cluster'));
}

function postgresCommand(place: Place, name: string, args: readonly string[]): Command {
  const command = { file: join(place.bin, name), args, cwd: place.folder, settings: {} };
  return place.user ? { ...command, user: place.user } : command;
}

async function probe(address: string): Promise<void> {
  const database = openDatabase({
    url: address,
    applicationName: 'launcher',
    connectionsMax: 1,
    // A server that goes away during the probe is reported by the probe.
    onIdleError: () => undefined,
  });
  try {
    await database.ping();
  } finally {
    await database.close();
  }
}
