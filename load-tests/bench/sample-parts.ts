import { readdirSync, readFileSync } from 'node:fs';
import type { System } from '@triplock/demo';
import { systemStatus } from '@triplock/launcher';
import { measuredParts, type MeasuredPart } from './measurements.ts';

/** CPU microseconds that each server has used since it started, its children included. */
export type PartSample = Readonly<Record<MeasuredPart, number>>;

// Linux counts in ticks of 10 ms wherever Node runs (USER_HZ, proc_pid_stat(5)).
const microsPerTick = 10_000;

/** Reads it from `/proc`; `undefined` where a server is given or the system has no `/proc`. */
export async function sampleParts({ home }: Pick<System, 'home'>): Promise<PartSample | undefined> {
  const { processes } = await systemStatus({ home, only: measuredParts });
  const family = readProcesses();
  const sample = measuredParts.map((name) => {
    const part = processes.find((each) => each.name === name);
    return [name, part === undefined ? undefined : ticksOf(part.pid, family)] as const;
  });
  if (sample.some(([, ticks]) => ticks === undefined)) return undefined;
  return Object.fromEntries(
    sample.map(([name, ticks]) => [name, ticks! * microsPerTick]),
  ) as PartSample;
}

type Family = ReadonlyMap<number, { parent: number; ticks: number }>;

/** A process, the children that it has, and those that it had. */
function ticksOf(pid: number, family: Family): number | undefined {
  const own = family.get(pid);
  if (own === undefined) return undefined;
  return [...family]
    .filter(([, { parent }]) => parent === pid)
    .reduce((sum, [child]) => sum + (ticksOf(child, family) ?? 0), own.ticks);
}

function readProcesses(): Family {
  const family = new Map<number, { parent: number; ticks: number }>();
  for (const pid of listProcesses()) {
    const fields = readFields(pid);
    if (fields === undefined) continue;
    // Of proc_pid_stat(5), counted from the field after the name: 4 ppid, 14 utime to 17 cstime.
    const ticks = fields.slice(11, 15).reduce((sum, each) => sum + Number(each), 0);
    family.set(pid, { parent: Number(fields[1]), ticks });
  }
  return family;
}

function listProcesses(): number[] {
  try {
    return readdirSync('/proc').map(Number).filter(Number.isInteger);
  } catch {
    return []; // A system without it.
  }
}

function readFields(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name may hold spaces and brackets; it ends at the last one.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined; // It ended meanwhile.
  }
}
