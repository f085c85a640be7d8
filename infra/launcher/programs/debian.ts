import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { PartMissing } from '../errors.ts';
import { runTool } from '../processes/run-tool.ts';
import type { Session } from '../session.ts';
import { findOnPath } from './installed.mjs';
import { cached } from './programs.ts';

/** A program in packages of Debian or Ubuntu. */
type Wanted = {
  /** Of the cache's folder, and what it is called. */
  name: string;
  title: string;
  /** The package that holds it, and the libraries beside what every Debian has. */
  packages: readonly [string, ...string[]];
  /** Where the packages put it, from the root. */
  file: string;
  /** What it is to be called, where it knows by that what to do; as in the package. */
  as?: string;
};

/**
 * The program's file, out of packages that come signed, fetched in seconds the first time. They are
 * not installed: that takes root, and would start a server as a service.
 *
 * @throws PartMissing where this is no Debian.
 */
export async function programOfDebian(session: Session, wanted: Wanted): Promise<string> {
  const { name, title, packages, file, as = basename(file) } = wanted;
  const [apt, dpkg] = [findOnPath('apt-get'), findOnPath('dpkg-deb')];
  if (apt === undefined || dpkg === undefined) throw new PartMissing('this is no Debian or Ubuntu');
  const entry = { name: `${name}-debian-${process.platform}-${process.arch}` };
  const folder = await cached(session, entry, async (filling) => {
    const settings = process.env as Record<string, string>;
    const run = (doing: string, program: string, ...args: readonly string[]) => {
      const command = { file: program, args, cwd: filling, settings };
      return runTool(session, { name: `fetch-${name}`, doing, command });
    };
    await run(`fetching Debian’s ${title}`, apt, 'download', ...packages);
    const archives = readdirSync(filling);
    for (const archive of archives) await run('unpacking it', dpkg, '-x', archive, 'all');
    mkdirSync(join(filling, 'bin'));
    renameSync(join(filling, 'all', file), join(filling, 'bin', as));
    if (packages.length > 1) renameSync(join(filling, 'all/usr/lib'), join(filling, 'lib'));
    writeFileSync(join(filling, as), withLibraries, { mode: 0o755 });
    for (const each of ['all', ...archives]) rmSync(join(filling, each), { recursive: true });
  });
  return join(folder, as);
}

/** Starts the program of its name with the libraries that lie beside it, for this architecture. */
const withLibraries = `#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
for folder in "$here"/lib/*-linux-*; do libraries=$folder; done
LD_LIBRARY_PATH="$libraries" exec "$here/bin/$(basename "$0")" "$@"
`;
