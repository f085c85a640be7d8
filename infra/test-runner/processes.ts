import { readdirSync, readFileSync } from 'node:fs';

/**
 * The processes that a process started and that live, but those that lead a session of their own,
 * as what a launcher leaves running does; none where there is no /proc.
 */
export function childrenOf(parent: number): number[] {
  return all()
    .filter(({ ppid, pid, session }) => ppid === parent && session !== pid)
    .map(({ pid }) => pid);
}

/** What a process started, and what that did, in the same way, the last first. */
export function familyOf(parent: number): number[] {
  const processes = all();
  const family = [parent];
  // It grows while it is walked.
  for (const each of family) {
    for (const { pid, ppid, session } of processes) {
      if (ppid === each && session !== pid) family.push(pid);
    }
  }
  return family.slice(1).toReversed();
}

/**
 * Seconds of CPU that this process has used, with its children that have ended; none where there is
 * no /proc.
 */
export function cpuSeconds(): number {
  // utime, stime, cutime and cstime (man proc_pid_stat), in ticks, of which Linux has 100 a second.
  const ticks = read('/proc/self/stat')?.split(') ').at(-1)?.split(' ').slice(11, 15) ?? [];
  return ticks.reduce((sum, each) => sum + Number(each), 0) / 100;
}

/** The words that a process was started with. */
export function commandOf(pid: number): string {
  return read(`/proc/${pid}/cmdline`)?.replaceAll('\0', ' ').trim() ?? 'which has ended by now';
}

type Process = { pid: number; ppid: number; session: number };

/** Every process. A zombie has ended: only its exit code is left. */
function all(): Process[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    // Its second field is a name in brackets, which may hold anything (man proc_pid_stat).
    const fields = read(`/proc/${name}/stat`)?.split(') ').at(-1)?.split(' ');
    if (fields === undefined || fields[0] === 'Z') return [];
    return { pid: Number(name), ppid: Number(fields[1]), session: Number(fields[3]) };
  });
}

/** A file of a process, which may be gone at any time. */
function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
