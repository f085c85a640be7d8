import { readdirSync, readFileSync } from 'node:fs';

/**
 * The processes that a worker started, if it lives, and what these did, wherever they are now: by
 * their parent, and by the temporary folder that each worker has for itself and that whatever is
 * started from it inherits. None where there is no /proc.
 *
 * What leads a session of its own without that folder is what a launcher leaves running.
 */
export function familyOf(parent: number | undefined, temporary: string): number[] {
  const processes = all();
  const mark = `TMPDIR=${temporary}`;
  const family = new Set(parent === undefined ? [] : [parent]);
  for (const { pid } of processes) {
    if (read(`/proc/${pid}/environ`)?.split('\0').includes(mark)) family.add(pid);
  }
  // It grows while it is walked.
  for (const each of family) {
    for (const { pid, ppid, session } of processes) {
      if (ppid === each && session !== pid) family.add(pid);
    }
  }
  return [...family].filter((pid) => pid !== parent);
}

/** Kills what {@link familyOf} names. */
export function endFamily(parent: number | undefined, temporary: string): void {
  for (const pid of familyOf(parent, temporary)) endProcess(pid);
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // It ended by itself meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
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
