import { CommandError } from '@triplock/command';
import { createHome } from '../home.ts';
import { programOfDebian } from '../programs/debian.ts';
import { askVersion, findOnPath } from '../programs/installed.mjs';
import { openSession } from '../session.ts';

/** A PgBouncer that runs here, or why there is none. */
export type FoundPgbouncer =
  { outcome: 'found'; file: string } | { outcome: 'missing'; why: string };

const packages = ['pgbouncer', 'libevent-2.1-7', 'libc-ares2'] as const;

/** Finds a pooler to try services through, on PATH or in Debian's packages. */
export async function findPgbouncer(signal: AbortSignal): Promise<FoundPgbouncer> {
  try {
    const session = openSession(createHome(), { report: () => undefined, signal });
    const debian = { name: 'pgbouncer', title: 'PgBouncer', packages, file: 'usr/sbin/pgbouncer' };
    const file = findOnPath('pgbouncer') ?? (await programOfDebian(session, debian));
    const runs = (await askVersion(file, '--version')) !== undefined;
    return runs ? { outcome: 'found', file } : { outcome: 'missing', why: `${file} does not run` };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return { outcome: 'missing', why: error.message };
  }
}
