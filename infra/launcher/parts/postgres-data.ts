import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '@triplock/command';
import type { SystemUser } from '../processes/start.ts';
import type { Session } from '../session.ts';

/** PostgreSQL's programs on this machine. */
export type PostgresProgram = {
  /** The folder of `postgres` and `initdb`. */
  bin: string;
  /** The folder to copy where `bin` cannot be reached; absent for one installed in the system. */
  movable?: string;
  version: string;
  picked: string;
};

/** Where PostgreSQL's data and programs are, and whom it runs as. */
export type Installation = { folder: string; bin: string; user?: SystemUser };

/**
 * PostgreSQL refuses to run as root. So root has it run as another user, and that user must be able
 * to enter the folder and to run the programs, which below a private folder such as /root it
 * cannot: then both go to a folder of its own under /var/tmp, linked from the home.
 */
export function locatePostgres(
  session: Session,
  wanted: { program: PostgresProgram; folder: string },
): Installation {
  const { program, folder } = wanted;
  if (process.getuid?.() !== 0) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return { folder, bin: program.bin };
  }
  const user = userFor(folder);
  const reachable = reachableFolder(session, folder, user);
  return { folder: reachable, bin: reachablePrograms(program, reachable, user), user };
}

/** Removes the data, also where the home only links to it. */
export function removePostgresData(folder: string): void {
  const target = isLink(folder) && existsSync(folder) ? realpathSync(folder) : undefined;
  if (target !== undefined && isReachablePlace(target)) {
    rmSync(target, { recursive: true, force: true });
  }
  rmSync(folder, { recursive: true, force: true });
}

/** Where data is that its user could not reach in the home. */
const reachablePlaces = '/var/tmp';

/** Whether it was made there for some home, and is nothing else that somebody led a link to. */
function isReachablePlace(target: string): boolean {
  const made = /^triplock-[0-9a-f]{16}$/.test(basename(target));
  return made && dirname(target) === realpathSync(reachablePlaces);
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
    throw new CommandError(
      `PostgreSQL's data in ${folder} can no longer be reached by ${user.name}: a folder above it became private`,
    );
  }
  const name = createHash('sha256').update(session.home.folder).digest('hex').slice(0, 16);
  const target = join(reachablePlaces, `triplock-${name}`);
  if (!existsSync(target)) {
    mkdirSync(target, { mode: 0o700 });
    chownSync(target, user.uid, user.gid);
  }
  rmSync(folder, { recursive: true });
  symlinkSync(ownFolder(target, user), folder);
  session.report(
    `postgres: ${user.name} may not enter ${dirname(folder)}, so the data is in ${target} (npm run down -- --volumes removes it)`,
  );
  return target;
}

/** A folder in /var/tmp has a name that others can guess: it must not be theirs. */
function ownFolder(target: string, user: SystemUser): string {
  const { uid, mode } = lstatSync(target);
  if (lstatSync(target).isDirectory() && uid === user.uid && (mode & 0o077) === 0) return target;
  throw new CommandError(
    `${target} should be a private folder of ${user.name} and is not: look at it and remove it`,
  );
}

function reachablePrograms(program: PostgresProgram, target: string, user: SystemUser): string {
  if (canRun(user, [join(program.bin, 'postgres'), '--version'])) return program.bin;
  if (program.movable === undefined) {
    throw new CommandError(`${program.bin} cannot be entered by ${user.name}`);
  }
  const copy = join(target, `postgres-${program.version}`);
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

/** What a shell does not take as it is between double quotes (POSIX, "Shell Command Language"). */
const changedInQuotes = /[$`"\\]/;

/**
 * Gives the work a folder of the programs whose path a shell takes as it is: initdb has one run
 * `postgres` by its whole path, in double quotes. Where theirs is another, such as in a clone whose
 * path has a dollar sign, it is that of a copy, which is removed when the work is done.
 *
 * @throws CommandError where they were installed there and cannot be copied.
 */
export async function withQuotedPrograms<Result>(
  { bin, movable }: PostgresProgram,
  installation: Installation,
  work: (bin: string) => Promise<Result>,
): Promise<Result> {
  if (!changedInQuotes.test(installation.bin)) return work(installation.bin);
  if (movable === undefined) {
    throw new CommandError(
      `${bin}: PostgreSQL's initdb cannot be run by a path with one of $, \`, " and \\ in it: put another on PATH`,
    );
  }
  const copy = mkdtempSync(join(tmpdir(), 'triplock-initdb-'));
  try {
    cpSync(movable, copy, { recursive: true, verbatimSymlinks: true });
    const { user } = installation;
    if (user !== undefined) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, copy]);
    return await work(join(copy, 'bin'));
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function canRun(user: SystemUser, [file, ...args]: readonly [string, ...string[]]): boolean {
  const { uid, gid } = user;
  const result: { status: number | null; error?: NodeJS.ErrnoException } = spawnSync(file, args, {
    uid,
    gid,
    cwd: '/',
    stdio: 'ignore',
  });
  // EACCES is the answer no. EPERM and EINVAL mean that this root may not become anybody else.
  if (result.error?.code === 'EPERM' || result.error?.code === 'EINVAL') {
    throw cannotChangeUser(`root here may not become ${user.name}`);
  }
  return result.status === 0;
}

function cannotChangeUser(because: string): CommandError {
  return new CommandError(
    `PostgreSQL does not run as root, and ${because}: run this as another user, or give DATABASE_URL`,
  );
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

/** Nearly all backends end at once; one in the middle of a long statement goes on to its end. */
const waitMs = 60_000;
const lookAgainMs = 50;

/**
 * Makes way for a new server on a cluster whose server was killed: waits until its backends are
 * gone, because PostgreSQL refuses to start while one is attached to the old shared memory, and
 * takes the old server's lock file away. That one is believed as long as there is a process of its
 * number, also when that is a zombie or another program by now.
 *
 * Where the system does not show what is attached, PostgreSQL judges by itself.
 *
 * @throws CommandError when a backend is still at work after a minute.
 */
export async function clearRemains(session: Session, cluster: string): Promise<void> {
  const lockFile = join(cluster, 'postmaster.pid');
  const memory = sharedMemoryOf(lockFile);
  if (memory === undefined) return;
  const deadline = Date.now() + waitMs;
  for (let reported = false; ; reported = true) {
    const attached = attachedTo(memory);
    if (attached === undefined) return;
    if (attached === 0) break;
    if (!reported)
      session.report('postgres: backends of the killed server are still at work, waiting');
    if (Date.now() > deadline) throw stillAtWork();
    await delay(lookAgainMs, undefined, { signal: session.signal });
  }
  // A server that lives is attached itself, so none does.
  rmSync(lockFile, { force: true });
}

function stillAtWork(): CommandError {
  return new CommandError(
    `postgres: a killed server's backends are still at work after ${waitMs / 1000} s: wait for their statements to end, or end the processes that ps calls "postgres: …", and call up again`,
  );
}

type SharedMemory = { key: string; id: string };

/** What the last server used, from the 7th line of its lock file: key and id. */
function sharedMemoryOf(lockFile: string): SharedMemory | undefined {
  const line = read(lockFile)?.split('\n')[6];
  const [key, id] = line?.trim().split(/\s+/) ?? [];
  return key === undefined || id === undefined ? undefined : { key, id };
}

/**
 * How many processes are attached (proc(5), /proc/sysvipc/shm); `undefined` where nothing tells.
 */
function attachedTo({ key, id }: SharedMemory): number | undefined {
  const text = read('/proc/sysvipc/shm');
  if (text === undefined) return undefined;
  const [columns = [], ...rows] = text
    .trimEnd()
    .split('\n')
    .map((row) => row.trim().split(/\s+/));
  const cell = (row: string[], column: string) => row[columns.indexOf(column)];
  const found = rows.find((row) => cell(row, 'key') === key && cell(row, 'shmid') === id);
  return found === undefined ? 0 : Number(cell(found, 'nattch'));
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
