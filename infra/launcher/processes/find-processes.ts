import { readdirSync, readFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import type { Home } from '../home.ts';
import { procStat } from './identity.ts';

/** In the environment of everything that a home starts. */
export const homeMark = 'TRIPLOCK_HOME';

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
