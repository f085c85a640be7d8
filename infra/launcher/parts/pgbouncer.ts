import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError } from '@triplock/command';
import { createHome } from '../home.ts';
import { runTool } from '../processes/run-tool.ts';
import { openSession, type Session } from '../session.ts';
import { askVersion, cached, findOnPath } from './programs.ts';

/** A PgBouncer that runs here, or why there is none. */
export type FoundPgbouncer =
  { outcome: 'found'; file: string } | { outcome: 'missing'; why: string };

/** The libraries beside what every Debian with a PostgreSQL client has. */
const debianPackages = ['pgbouncer', 'libevent-2.1-7', 'libc-ares2'];

/**
 * Finds a pooler to try services through; none of them needs one. On PATH, or in Debian's packages,
 * which come signed, are fetched in seconds and are not installed: root would have it started as a
 * service.
 */
export async function findPgbouncer(
  listening: Pick<Session, 'report' | 'signal'>,
): Promise<FoundPgbouncer> {
  const onPath = findOnPath('pgbouncer');
  if (onPath !== undefined) return identify(onPath);
  const [apt, dpkg] = [findOnPath('apt-get'), findOnPath('dpkg-deb')];
  if (apt === undefined || dpkg === undefined) {
    return { outcome: 'missing', why: 'pgbouncer is not on PATH, and this is no Debian or Ubuntu' };
  }
  const session = openSession(createHome(), listening);
  const entry = { name: `pgbouncer-debian-${process.platform}-${process.arch}` };
  try {
    const folder = await cached(session, entry, async (filling) => {
      const settings = process.env as Record<string, string>;
      const run = (doing: string, [file = '', ...args]: readonly string[]) => {
        const command = { file, args, cwd: filling, settings };
        return runTool(session, { name: 'fetch-pgbouncer', doing, command });
      };
      await run('fetching Debian’s PgBouncer', [apt, 'download', ...debianPackages]);
      const archives = readdirSync(filling).filter((name) => name.endsWith('.deb'));
      for (const archive of archives) await run('unpacking it', [dpkg, '-x', archive, 'all']);
      mkdirSync(join(filling, 'bin'));
      renameSync(join(filling, 'all/usr/sbin/pgbouncer'), join(filling, 'bin/pgbouncer'));
      renameSync(join(filling, 'all/usr/lib'), join(filling, 'lib'));
      writeFileSync(join(filling, 'pgbouncer'), withLibraries, { mode: 0o755 });
      for (const name of ['all', ...archives]) {
        rmSync(join(filling, name), { recursive: true, force: true });
      }
    });
    return await identify(join(folder, 'pgbouncer'));
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return { outcome: 'missing', why: error.message };
  }
}

/** Starts a program with the libraries that lie beside it, in a folder of this architecture. */
const withLibraries = `#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
for folder in "$here"/lib/*-linux-*; do libraries=$folder; done
LD_LIBRARY_PATH="$libraries" exec "$here/bin/pgbouncer" "$@"
`;

async function identify(file: string): Promise<FoundPgbouncer> {
  const version = await askVersion(file, '--version');
  return version === undefined
    ? { outcome: 'missing', why: `${file} does not run` }
    : { outcome: 'found', file };
}
