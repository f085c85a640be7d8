import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chownSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { bringUp, type Endpoints } from '@triplock/launcher';
import { openForCommand, type Database } from '@triplock/postgres';
import { eventually, freePort } from '@triplock/testing';
import { home } from './system.ts';

/** A standby of the system's PostgreSQL that streams from it. */
export type Standby = {
  /** Resolves once it has all that was committed until now. */
  caughtUp(): Promise<void>;
  /** It gets nothing more from now on, as one that is behind when its primary is lost. */
  fallBehind(): Promise<void>;
  /**
   * The primary is killed, this is promoted and answers at the primary's address. Services stay up.
   */
  failOver(): Promise<void>;
};

/** Takes a copy of the running server and has it stream. It ends with the test. */
export async function attachStandby(
  context: TestContext,
  { postgres }: Endpoints,
): Promise<Standby | 'out of reach'> {
  const primary = openAt(postgres);
  const { folder, bin, connections } = await whereIs(primary);
  const own = `${folder}-standby`;
  // In a container nobody can put one server in the place of another.
  if (portIn(folder) !== new URL(postgres).port) {
    await primary.close();
    return 'out of reach';
  }
  const lost = `${folder}-lost`;
  context.after(() => {
    for (const each of [own, lost]) rmSync(each, { recursive: true, force: true });
  });

  await primary.query(`SELECT pg_backup_start('standby', true)`);
  execFileSync('cp', ['-a', folder, own]);
  const [backup] = await primary.query<{ labelfile: string }>(
    'SELECT labelfile FROM pg_backup_stop(false)',
  );
  const { uid, gid } = statSync(folder);
  const at = new URL(postgres);
  const from = `host=${at.hostname} port=${at.port} user=${at.username} password=${at.password}`;
  rmSync(join(own, 'postmaster.pid'));
  writeFileSync(join(own, 'backup_label'), backup!.labelfile);
  writeFileSync(join(own, 'standby.signal'), '');
  for (const name of ['backup_label', 'standby.signal']) chownSync(join(own, name), uid, gid);
  appendFileSync(join(own, 'postgresql.auto.conf'), `primary_conninfo = '${from}'\n`);

  const port = String(await freePort());
  const settings = [`port=${port}`, `max_connections=${connections}`, 'unix_socket_directories='];
  const args = ['-D', own, ...settings.flatMap((each) => ['-c', each])];
  const server = spawn(join(bin, 'postgres'), args, { uid, gid, stdio: 'ignore' });
  const ended = once(server, 'exit');
  at.port = port;
  const standby = openAt(at.href);
  const stop = async () => {
    await standby.close();
    // SIGINT is its fast shutdown.
    server.kill('SIGINT');
    await ended;
  };
  context.after(async () => {
    if (server.exitCode === null && server.signalCode === null) await stop();
  });
  await eventually(() => standby.ping().then(() => true));
  const received = 'SELECT FROM pg_stat_wal_receiver';

  return {
    caughtUp: async () => {
      const [{ lsn }] = (await primary.query('SELECT pg_current_wal_lsn() AS lsn')) as [
        { lsn: string },
      ];
      const sql = 'SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS done';
      await eventually(async () => {
        return (await standby.query<{ done: boolean }>(sql, [lsn]))[0]!.done;
      });
    },
    fallBehind: async () => {
      await standby.query(`ALTER SYSTEM SET primary_conninfo = ''`);
      await standby.query('SELECT pg_reload_conf()');
      await eventually(async () => (await standby.query(received)).length === 0);
    },
    failOver: async () => {
      await primary.close();
      const lock = readFileSync(join(folder, 'postmaster.pid'), 'utf8');
      const pid = Number(lock.split('\n')[0]);
      process.kill(pid, 'SIGKILL');
      await eventually(async () => !existsSync(`/proc/${pid}`) || isDefunct(pid));
      await standby.query('SELECT pg_promote()');
      await stop();
      renameSync(folder, lost);
      renameSync(own, folder);
      // The server alone: services are up, and need not be ready.
      await bringUp({ home, only: [] });
    },
  };
}

function openAt(url: string): Database {
  const at = new URL(url);
  at.pathname = '/postgres';
  return openForCommand({ url: at.href, applicationName: 'e2e', connectionsMax: 1 });
}

type Where = { folder: string; bin: string; connections: string };

async function whereIs(server: Database): Promise<Where> {
  const [where] = await server.query<Where>(`
    SELECT current_setting('data_directory') AS folder, setting AS bin,
      current_setting('max_connections') AS connections
    FROM pg_config WHERE name = 'BINDIR'`);
  return where!;
}

/** The port of the server that has a folder, by its lock file; nothing where there is none. */
function portIn(folder: string): string | undefined {
  const lock = join(folder, 'postmaster.pid');
  return existsSync(lock) ? readFileSync(lock, 'utf8').split('\n')[3] : undefined;
}

function isDefunct(pid: number): boolean {
  return / Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
}
