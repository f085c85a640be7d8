import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs';
import type { Home } from '../home.ts';

/** A pid and when it began: together they name a process for ever, a pid alone does not. */
export type ProcessIdentity = { pid: number; startedAt: string };

/** Whether that very process still runs. One that died and was not collected yet does not. */
export function isSameProcess({ pid, startedAt }: ProcessIdentity): boolean {
  return startTimeOf(pid) === startedAt;
}

/** When the process began, in a form of its own per system; `undefined` when there is none. */
export function startTimeOf(pid: number): string | undefined {
  return process.platform === 'linux' ? procStat(pid)?.startedAt : psStartTime(pid);
}

/** Whether the process stands still after a SIGSTOP. */
export function isPaused(pid: number): boolean {
  if (process.platform === 'linux') return procStat(pid)?.state === 'T';
  return ps(pid, 'state=').startsWith('T');
}

/** What Linux says about a process: proc(5), /proc/[pid]/stat, fields 3, 4, 20 and 22. */
function procStat(pid: number): { state: string; parent: number; startedAt: string } | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    // ENOENT and ESRCH both mean that it ended.
    return undefined;
  }
  // The name in field 2 may itself hold spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state = '', parent = '0'] = fields;
  // One that is killed has its first thread end before the others: while one of them is left, its
  // ports are still taken and its files still open.
  const threads = Number(fields[17]);
  if ((state === 'Z' && threads <= 1) || state === 'X') return undefined;
  return { state, parent: Number(parent), startedAt: `${bootId()}/${fields[19]}` };
}

let boot: string | undefined;

/** Start times count from the boot, so the boot belongs to them. */
function bootId(): string {
  boot ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8);
  return boot;
}

function psStartTime(pid: number): string | undefined {
  if (ps(pid, 'state=').startsWith('Z')) return undefined;
  return ps(pid, 'lstart=') || undefined;
}

function ps(pid: number, column: string): string {
  try {
    return execFileSync('ps', ['-o', column, '-p', String(pid)], { encoding: 'utf8' }).trim();
  } catch {
    // ps exits with 1 when there is no such process.
    return '';
  }
}

/**
 * Whether the process itself listens on the port, which is what the system says of it and no answer
 * of a server can pretend. `undefined` where the system does not tell: Linux does not of another
 * user's process.
 */
export function listensOn(pid: number, port: number): boolean | undefined {
  if (process.platform === 'linux') return holdsListener(pid, port);
  const asked = ['-nP', '-a', '-p', String(pid), `-iTCP:${port}`, '-sTCP:LISTEN', '-t'];
  const { status, stdout } = spawnSync('lsof', asked, { encoding: 'utf8' });
  // lsof exits with 1 when it finds none; with nothing when there is no lsof.
  return status === null ? undefined : stdout.trim() !== '';
}

function holdsListener(pid: number, port: number): boolean | undefined {
  const own = socketsOf(pid);
  if (own === undefined) return undefined;
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  // There is no tcp6 where IPv6 is off.
  for (const table of ['tcp', 'tcp6']) {
    for (const { local, inode } of listeners(`/proc/net/${table}`)) {
      if (local.endsWith(suffix) && own.has(inode)) return true;
    }
  }
  return false;
}

/**
 * Sockets that listen: proc(5), /proc/net/tcp, the 2nd, 4th and 10th column. They come before all
 * others (Linux, Documentation/networking/proc_net_tcp.rst), and nothing is read beyond them: for
 * each look at those the system walks through a table with room for every connection there may be,
 * which takes it longer than all else that is done here.
 */
function* listeners(table: string): Generator<{ local: string; inode: string }> {
  const descriptor = openIfAny(table);
  if (descriptor === undefined) return;
  try {
    const piece = Buffer.alloc(4_096);
    let cutOff = '';
    for (let isFirst = true; ;) {
      const bytes = readSync(descriptor, piece);
      if (bytes === 0) return;
      const lines = (cutOff + piece.toString('latin1', 0, bytes)).split('\n');
      cutOff = lines.pop()!;
      if (isFirst) lines.shift();
      isFirst = false;
      for (const line of lines) {
        const columns = line.trim().split(/\s+/);
        if (columns[3] !== '0A') return;
        yield { local: columns[1]!, inode: columns[9]! };
      }
    }
  } finally {
    closeSync(descriptor);
  }
}

function openIfAny(file: string): number | undefined {
  try {
    return openSync(file, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Inodes of a process's sockets, none of one that has ended; `undefined` of another user's. */
function socketsOf(pid: number): Set<string> | undefined {
  const folder = `/proc/${pid}/fd`;
  try {
    const links = readdirSync(folder).map((name) => linkIfThere(`${folder}/${name}`));
    return new Set(links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []));
  } catch (error) {
    // EACCES: another user's. ENOENT: it has ended.
    return (error as NodeJS.ErrnoException).code === 'EACCES' ? undefined : new Set();
  }
}

function linkIfThere(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    // Closed since it was listed.
    return '';
  }
}

/** In the environment of everything that a home starts. */
const homeMark = 'TRIPLOCK_HOME';
/** Beside it, the launcher that started it. */
const launcherMark = 'TRIPLOCK_LAUNCHER';

/** What is set for everything that this process starts for a home. */
export function marksOf(home: Home): Readonly<Record<string, string>> {
  const launcher = `${process.pid} ${startTimeOf(process.pid) ?? ''}`;
  return { [homeMark]: home.folder, [launcherMark]: launcher };
}

/**
 * Processes that carry the home's mark, on Linux. They are found even when the launcher died
 * between starting one and recording it. The caller and its ancestors are left out: they may have
 * inherited the mark, and nobody wants to stop himself.
 */
export function findMarkedProcesses(home: Home): number[] {
  if (process.platform !== 'linux') return [];
  const spared = ancestorsOf(process.pid);
  return allPids().filter((pid) => !spared.has(pid) && carriesMark(pid, home.folder));
}

/**
 * Those of them that a launcher left behind which is gone. One that a launcher is at work with is
 * none, such as a program that is being built in another terminal; nor is one that no launcher
 * started, such as a shell in which somebody has set the variable.
 */
export function findStrays(home: Home): number[] {
  return findMarkedProcesses(home).filter((pid) => {
    const environment = readProc(pid, 'environ');
    if (environment === undefined || environment.join('') === '') return true;
    const mark = environment.find((each) => each.startsWith(`${launcherMark}=`));
    const [, launcher, startedAt] = /=(\d+) (.+)$/.exec(mark ?? '') ?? [];
    return launcher !== undefined && startTimeOf(Number(launcher)) !== startedAt;
  });
}

/** The processes and everything they started, and what that started, deepest last. */
export function withDescendants(pids: readonly number[]): number[] {
  const parents = parentsByPid();
  const family = [...pids];
  for (const each of family) {
    for (const [child, parent] of parents) if (parent === each) family.push(child);
  }
  return family;
}

function carriesMark(pid: number, folder: string): boolean {
  if (procStat(pid) === undefined) return false;
  const environment = readProc(pid, 'environ');
  if (environment !== undefined) return environment.includes(`${homeMark}=${folder}`);
  // The environment of another user's process is hidden, even from a root without CAP_SYS_PTRACE;
  // its arguments are not. PostgreSQL, the one part that runs as another user, has the mark there.
  return readProc(pid, 'cmdline')?.includes(`triplock.home=${folder}`) ?? false;
}

function readProc(pid: number, file: 'environ' | 'cmdline'): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8').split('\0');
  } catch {
    // Ended meanwhile, or not ours to read.
    return undefined;
  }
}

function ancestorsOf(pid: number): Set<number> {
  const seen = new Set<number>();
  for (let each = pid; each > 0 && !seen.has(each); each = procStat(each)?.parent ?? 0) {
    seen.add(each);
  }
  return seen;
}

function allPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function parentsByPid(): Map<number, number> {
  if (process.platform === 'linux') {
    return new Map(allPids().map((pid) => [pid, procStat(pid)?.parent ?? 0]));
  }
  const lines = execFileSync('ps', ['-axo', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n');
  return new Map(lines.map((line) => line.trim().split(/\s+/).map(Number) as [number, number]));
}
