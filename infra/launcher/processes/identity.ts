import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

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

/** What Linux says about a process: proc(5), /proc/[pid]/stat, fields 3, 4 and 22. */
export function procStat(
  pid: number,
): { state: string; parent: number; startedAt: string } | undefined {
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
  if (state === 'Z' || state === 'X') return undefined;
  return { state, parent: Number(parent), startedAt: `${bootId()}/${fields[19]}` };
}

/** Start times count from the boot, so the boot belongs to them. */
function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8);
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
