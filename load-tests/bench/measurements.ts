import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { sumSeries, type System } from '@triplock/demo';
import { declarations, systemStatus, UsageError, type ServiceName } from '@triplock/launcher';
import { wholeNumber } from '@triplock/operator';
import { readMetrics } from '../systems.ts';

/** Seconds of load of each run, of the system and of the empty POST, and connections. */
export type LoadAmount = { seconds: number; connections: number };

/** What was asked for on the command line. */
export type BenchOptions = LoadAmount & {
  repeat: number;
  /** The share of payments that is traced; absent, tracing is off. */
  tracing?: number;
};

/** The options' values.  @throws UsageError for one that is no number or out of range. */
export function readBenchOptions(values: {
  seconds?: string | undefined;
  connections?: string | undefined;
  repeat?: string | undefined;
  tracing?: string | undefined;
}): BenchOptions {
  const { seconds, connections, repeat, tracing } = values;
  return {
    seconds: wholeNumber(seconds, { option: 'seconds', min: 1, max: 3_600 }) ?? 20,
    connections: wholeNumber(connections, { option: 'connections', min: 1, max: 4_096 }) ?? 64,
    repeat: wholeNumber(repeat, { option: 'repeat', min: 1, max: 100 }) ?? 3,
    ...(tracing !== undefined && { tracing: shareOf(tracing) }),
  };
}

function shareOf(text: string): number {
  const share = /^(0|1|0?\.\d+|1\.0+)$/.test(text) ? Number(text) : NaN;
  if (share >= 0) return share;
  throw new UsageError(`--tracing takes a share from 0 to 1, such as 0.01, not '${text}'`);
}

/** The services whose CPU a payment takes, in the order in which it meets them. */
export const measuredServices = declarations.map(({ name }) => name as ServiceName);
export type MeasuredService = ServiceName;

/** What a payment passes until its event is published; the others are consumers of that. */
export const pipelineServices: readonly MeasuredService[] = measuredServices.slice(0, 3);

/** What one service used in a run, all its replicas together. */
export type ServiceUse = {
  /** From the first request until all was drained. */
  cpuMicros: number;
  /** What it would have used in the same time with nothing to do. */
  idleMicros: number;
  rssBytesPeak: number;
  rssBytesEnd: number;
};

/** Load on the empty POST. */
export type EmptyPostRun = { load: LoadReport; cpuMicros: number };

/** The servers that the services stand on, and the name of each one's process. */
export const measuredParts = ['redis', 'kafka', 'postgres', 'pubsub'] as const;
export type MeasuredPart = (typeof measuredParts)[number];

/** Load on the system, and all that came of it. */
export type SystemRun = {
  load: LoadReport;
  services: Readonly<Record<MeasuredService, ServiceUse>>;
  /** CPU of the servers in the same time; absent where they are not this machine's processes. */
  partMicros?: Readonly<Record<MeasuredPart, number>>;
  /** The same keys sent again, and what answering them took the gateway. */
  replay: { load: LoadReport; gatewayMicros: number };
  /**
   * From the first request until the last payment was published, delivered, and all was drained.
   */
  publishedMs: number;
  deliveredMs: number;
  drainedMs: number;
};

/** One repetition: the system between two runs of the empty POST. */
export type Repetition = { before: EmptyPostRun; system: SystemRun; after: EmptyPostRun };

/** How much to send, whereto, and as whom. */
export type LoadOrder = {
  /** Base URLs; connections are spread over them. */
  targets: readonly string[];
  apiKey: string;
  /** Random, so that every idempotency key is a fresh one. */
  run: string;
  connections: number;
  seconds: number;
  /**
   * Sends that many keys of the run over and over, which were accepted before; absent: fresh ones.
   */
  again?: number;
};

/** What was sent and answered. Times in milliseconds. */
export type LoadReport = {
  accepted: number;
  /** Answers other than 202, by status, and `error` for requests without one. */
  others: Readonly<Record<string, number>>;
  /** From the first request to the last answer. */
  tookMs: number;
  /** From sending a request to the end of its 202. */
  latencyMs: { p50: number; p99: number; max: number };
  /** CPU time of the process that sent it. */
  cpuMicros: number;
};

/** What a service's processes report of themselves, its replicas added up. */
type ServiceSample = { cpuMicros: number; rssBytes: number };
export type Sample = Readonly<Record<MeasuredService, ServiceSample>>;

/** Asks every replica of every service for its `/metrics`. */
export async function sampleServices(system: System): Promise<Sample> {
  const sampled = measuredServices.map(async (name) => {
    return [name, readSample(await readMetrics(system, name))] as const;
  });
  return Object.fromEntries(await Promise.all(sampled)) as Sample;
}

/** Adds up the metrics of a service's replicas. */
export function readSample(texts: readonly string[]): ServiceSample {
  const sum = (name: string) => texts.reduce((total, text) => total + sumSeries(text, { name }), 0);
  const cpuSeconds = sum('process_cpu_seconds_total');
  const rssBytes = sum('process_resident_memory_bytes');
  if (!(cpuSeconds > 0 && rssBytes > 0)) {
    throw new Error('a service reports nothing of its CPU time and its memory');
  }
  return { cpuMicros: cpuSeconds * 1_000_000, rssBytes };
}

/** CPU microseconds that each server has used since it started, its children included. */
type PartSample = Readonly<Record<MeasuredPart, number>>;

// Linux counts in ticks of 10 ms wherever Node runs (USER_HZ, proc_pid_stat(5)).
const microsPerTick = 10_000;

/** Reads it from `/proc`; `undefined` where a server is given or the system has no `/proc`. */
export async function sampleParts({ home }: System): Promise<PartSample | undefined> {
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

/** The largest resident memory seen of each service, bytes. */
export type MemoryPeaks = Record<MeasuredService, number>;

// Answering /metrics takes a service about a millisecond, so this is a thousandth of its CPU.
const lookEveryMs = 1_000;

/** Watches the services' memory until it is stopped, and returns the peaks. */
export function watchMemory(system: System): { stop(): Promise<MemoryPeaks> } {
  const stopping = new AbortController();
  const look = async (): Promise<MemoryPeaks> => {
    const peaks = Object.fromEntries(measuredServices.map((name) => [name, 0])) as MemoryPeaks;
    for (;;) {
      const services = await sampleServices(system);
      for (const name of measuredServices) {
        peaks[name] = Math.max(peaks[name], services[name].rssBytes);
      }
      if (stopping.signal.aborted) return peaks;
      await delay(lookEveryMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  };
  const peaks = look();
  // Whoever stops it hears of a failure; until then nobody does.
  peaks.catch(() => undefined);
  return {
    stop: () => {
      stopping.abort();
      return peaks;
    },
  };
}
