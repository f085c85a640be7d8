import { createHash } from 'node:crypto';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { LauncherError } from '../launcher-error.ts';
import type { SystemUser } from '../processes/start-process.ts';
import type { Session } from '../session.ts';
import type { PostgresProgram } from './postgres-program.ts';

/** Where PostgreSQL's data and programs are, and whom it runs as. */
export type Place = { folder: string; bin: string; user?: SystemUser };

/**
 * PostgreSQL refuses to run as root. So root has it run as another user, and that user must be able
 * to enter the folder and to run the programs, which below a private folder such as /root it
 * cannot: then both go to a folder of its own under /var/tmp, linked from the home.
 */
export function placePostgres(
  session: Session,
  wanted: { program: PostgresProgram; folder: string },
): Place {
  const { program, folder } = wanted;
  if (process.getuid?.() !== 0) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return { folder, bin: program.bin };
  }
  const user = userFor(folder);
  const place = reachableFolder(session, folder, user);
  return { folder: place, bin: reachablePrograms(program, place, user), user };
}

/** Removes the data, also where the home only links to it. */
export function removePostgresData(folder: string): void {
  if (
    isLink(folder) &&
    existsSync(folder) &&
    basename(realpathSync(folder)).startsWith('triplock-')
  ) {
    rmSync(realpathSync(folder), { recursive: true, force: true });
  }
  rmSync(folder, { recursive: true, force: true });
}

/** Whoever owns the data already, else `postgres`, else `nobody`. */
function userFor(folder: string): SystemUser {
  const owner = existsSync(folder) ? statSync(folder) : undefined;
  if (owner !== undefined && owner.uid !== 0) {
    return { name: `user ${owner.uid}`, uid: owner.uid, gid: owner.gid };
  }
  const user = systemUser('postgres') ?? systemUser('nobody');
  if (user !== undefined) return user;
  throw cannotChangeUser('there is neither a user postgres nor a user nobody');
}

function systemUser(name: string): SystemUser | undefined {
  const [uid, gid] = ['-u', '-g'].map((flag) => {
    const { status, stdout } = spawnSync('id', [flag, name], { encoding: 'utf8' });
    return status === 0 ? Number(stdout) : NaN;
  });
  return uid! > 0 && gid! > 0 ? { name, uid: uid!, gid: gid! } : undefined;
}

function reachableFolder(session: Session, folder: string, user: SystemUser): string {
  if (isLink(folder) && existsSync(folder)) return ownFolder(realpathSync(folder), user);
  // A link whose target was cleaned away leads nowhere; the data is gone and begins anew.
  if (isLink(folder)) rmSync(folder);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  chownSync(folder, user.uid, user.gid);
  if (canRun(user, ['/bin/sh', '-c', 'test -w "$1" && test -x "$1"', 'sh', folder])) return folder;
  if (existsSync(join(folder, 'cluster'))) {
    throw new LauncherError(
      `PostgreSQL's data in ${folder} can no longer be reached by ${user.name}: a folder above it became private`,
    );
  }
  const name = createHash('sha256').update(session.home.folder).digest('hex').slice(0, 16);
  const place = join('/var/tmp', `triplock-${name}`);
  if (!existsSync(place)) {
    mkdirSync(place, { mode: 0o700 });
    chownSync(place, user.uid, user.gid);
  }
  rmSync(folder, { recursive: true });
  symlinkSync(ownFolder(place, user), folder);
  session.report(
    `postgres: ${user.name} may not enter ${dirname(folder)}, so the data is in ${place} (npm run down -- --volumes removes it)`,
  );
  return place;
}

/** A folder in /var/tmp has a name that others can guess: it must not be theirs. */
function ownFolder(place: string, user: SystemUser): string {
  const { uid, mode } = lstatSync(place);
  if (lstatSync(place).isDirectory() && uid === user.uid && (mode & 0o077) === 0) return place;
  throw new LauncherError(
    `${place} should be a private folder of ${user.name} and is not: look at it and remove it`,
  );
}

function reachablePrograms(program: PostgresProgram, place: string, user: SystemUser): string {
  if (canRun(user, [join(program.bin, 'postgres'), '--version'])) return program.bin;
  if (program.movable === undefined) {
    throw new LauncherError(`${program.bin} cannot be entered by ${user.name}`);
  }
  const copy = join(place, `postgres-${program.version}`);
  if (!existsSync(copy)) {
    const next = `${copy}.next`;
    rmSync(next, { recursive: true, force: true });
    cpSync(program.movable, next, { recursive: true, verbatimSymlinks: true });
    execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, next]);
    chmodSync(next, 0o700);
    renameSync(next, copy);
  }
  return join(copy, 'bin');
}

function canRun(user: SystemUser, [file, ...args]: readonly [string, ...string[]]): boolean {
  const { uid, gid } = user;
  const result: { status: number | null; error?: NodeJS.ErrnoException } = spawnSync(file, args, {
    ...{ uid, gid },
    cwd: '/',
    stdio: 'ignore',
  });
  // EACCES is the answer no. EPERM and EINVAL mean that this root may not become anybody else.
  if (result.error?.code === 'EPERM' || result.error?.code === 'EINVAL') {
    throw cannotChangeUser(`root here may not become ${user.name}`);
  }
  return result.status === 0;
}

function cannotChangeUser(because: string): LauncherError {
  return new LauncherError(
    `PostgreSQL does not run as root, and ${because}: run this as another user, or give DATABASE_URL`,
  );
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}
