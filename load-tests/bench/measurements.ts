import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { sumSeries, type System } from '@triplock/demo';
import { declarations, systemStatus, type ServiceName } from '@triplock/launcher';
import { UsageError, wholeNumber } from '@triplock/command';
import { readMetrics } from '../systems.ts';

/** What was asked for on the command line. */
export type BenchOptions = {
  /** Seconds of load of each window. */
  seconds: number;
  /** Keep-alive connections of a closed loop. */
  connections: number;
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
    seconds: wholeNumber(seconds, { option: 'seconds', min: 1, max: 3_600 }) ?? 10,
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

export type MeasuredService = Exclude<ServiceName, 'console'>;

/**
 * The services whose CPU a payment takes, in the order in which it meets them: those that it
 * reaches by Kafka or Pub/Sub, whoever they are.
 */
export const measuredServices = declarations
  .filter(({ name, kafka, events }) => name !== 'console' && (kafka ?? events) !== undefined)
  .map(({ name }) => name as MeasuredService);

/** What a payment passes until its event is published; the others are consumers of that. */
export const pipelineServices: readonly MeasuredService[] = measuredServices.slice(0, 3);

/** The role of a service in the database, without `triplock_`; its name where it has none. */
export function roleOf(service: MeasuredService): string {
  return declaredAs(service).role?.replace('triplock_', '') ?? service;
}

function declaredAs(service: MeasuredService) {
  return declarations.find(({ name }) => name === service)!;
}

/**
 * What runs beside the services: the servers that they stand on, who receives the webhooks, and the
 * provider of the cards.
 */
export const besideServices = [
  'redis',
  'kafka',
  'postgres',
  'pubsub',
  'catcher',
  'stripe-simulator',
] as const;
export type BesideServices = (typeof besideServices)[number];

/** Somebody whose CPU is measured; all replicas of a service are one. */
export type Consumer = MeasuredService | BesideServices;

/** Microseconds of CPU; who does not run, or not on this machine, is not in it. */
export type Cpu = Readonly<Partial<Record<Consumer, number>>>;

/** What a service's processes report of themselves, its replicas added up. */
export type ServiceSample = {
  cpuMicros: number;
  rssBytes: number;
  count: (name: Counter) => number;
};

/** A counter of a service, by name and labels. */
type Counter = { name: string; labels?: Readonly<Record<string, string>> };

/** Asks every replica of a service for its `/metrics`, which takes it about a millisecond. */
async function sampleService(system: System, service: MeasuredService): Promise<ServiceSample> {
  return readSample(await readMetrics(system, service));
}

/** Adds up the metrics of a service's replicas. */
export function readSample(texts: readonly string[]): ServiceSample {
  const count = (counter: Counter) =>
    texts.reduce((total, text) => total + sumSeries(text, counter), 0);
  const cpuSeconds = count({ name: 'process_cpu_seconds_total' });
  const rssBytes = count({ name: 'process_resident_memory_bytes' });
  if (!(cpuSeconds > 0 && rssBytes > 0)) {
    throw new Error('a service reports nothing of its CPU time and its memory');
  }
  return { cpuMicros: cpuSeconds * 1_000_000, rssBytes, count };
}

/**
 * Reads the CPU that everybody has used since it started: services that run, and what is beside.
 */
export async function sampleCpu(system: System, running: readonly MeasuredService[]): Promise<Cpu> {
  const services = await Promise.all(
    running.map(async (name) => [name, (await sampleService(system, name)).cpuMicros] as const),
  );
  return { ...Object.fromEntries(services), ...(await sampleBeside(system)) };
}

/** What was used between two samples. @throws when somebody was started again meanwhile. */
export function cpuBetween(before: Cpu, after: Cpu): Cpu {
  const names = (Object.keys(after) as Consumer[]).filter((name) => before[name] !== undefined);
  const used = names.map((name) => [name, after[name]! - before[name]!] as const);
  const [lost] = used.find(([, micros]) => micros < 0) ?? [];
  if (lost !== undefined) throw new Error(`${lost} was started again in the middle of a run`);
  return Object.fromEntries(used);
}

// Linux counts in ticks of 10 ms wherever Node runs (USER_HZ, proc_pid_stat(5)).
const microsPerTick = 10_000;

/**
 * From `/proc`; a server that is given, or a system without `/proc`, is not in it.
 *
 * @throws when one that was running has gone: its CPU would be missing, and look like none.
 */
export async function sampleBeside(system: System): Promise<Cpu> {
  const processes = await processesOf(system);
  const family = readProcesses();
  const sample = besideServices.flatMap((name) => {
    const pid = processes.get(name);
    if (pid === undefined || family.size === 0) return [];
    const ticks = ticksOf(pid, family);
    if (ticks === undefined) throw new Error(`${name} has ended in the middle of a run`);
    return [[name, ticks * microsPerTick] as const];
  });
  return Object.fromEntries(sample);
}

// Looked up once: the launcher asks each of them whether it is well, which is work for them.
const processesBySystem = new WeakMap<System, Promise<ReadonlyMap<string, number>>>();

function processesOf(system: System): Promise<ReadonlyMap<string, number>> {
  const known = processesBySystem.get(system);
  if (known !== undefined) return known;
  const looked = systemStatus({ home: system.home, only: besideServices }).then(
    ({ processes }) => new Map(processes.map(({ name, pid }) => [name, pid])),
  );
  processesBySystem.set(system, looked);
  return looked;
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
    const stat = readIfAny(`/proc/${pid}/stat`);
    // The name may hold spaces and brackets; it ends at the last one.
    const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
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

function readIfAny(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined; // The process ended meanwhile.
  }
}

/**
 * MiB that each service has had at most since it started, by the system's own mark (`VmHWM`). In a
 * container that is the child of an init process.
 */
export function readPeaks({ endpoints }: System): Readonly<Record<string, number>> {
  const peaks: Record<string, number> = {};
  const family = [...readProcesses()];
  for (const { service, pid } of endpoints.services) {
    for (const [each] of family.filter(([own, { parent }]) => own === pid || parent === pid)) {
      const status = readIfAny(`/proc/${each}/status`) ?? '';
      const [, kibibytes] = /^VmHWM:\s+(\d+) kB/m.exec(status) ?? [];
      const mebibytes = Number(kibibytes ?? NaN) / 1_024;
      if (mebibytes >= 0) peaks[service] = Math.max(peaks[service] ?? 0, mebibytes);
    }
  }
  return peaks;
}

type Done = (count: ServiceSample['count']) => number;

/** What a stage has done since its processes started, by its own counters. */
function doneBy(stage: MeasuredService): Done {
  const [metrics] = declaredAs(stage).metrics;
  // As every consumer counts by libs/consumer.
  return done[stage] ?? ((count) => total(count, `${metrics}events_total`, { outcome: 'applied' }));
}

const done: Partial<Readonly<Record<MeasuredService, Done>>> = {
  'ingest-gateway': (count) => accepted(count, 'payments'),
  'ledger-worker': (count) => total(count, 'triplock_worker_records_total'),
  'outbox-dispatcher': (count) =>
    total(count, 'triplock_dispatcher_events_total', { outcome: 'published' }),
  'partner-notifier': (count) =>
    total(count, 'triplock_webhook_attempts_total', { outcome: 'delivered' }),
  auditor: (count) =>
    Math.min(
      total(count, 'triplock_auditor_events_total', { outcome: 'first' }),
      total(count, 'triplock_auditor_accepted_records_total', { outcome: 'payment' }),
    ),
};

function accepted(count: ServiceSample['count'], kind: string): number {
  return total(count, `triplock_gateway_${kind}_total`, { outcome: 'accepted' });
}

function total(count: ServiceSample['count'], name: string, labels?: Record<string, string>) {
  return count({ name, ...(labels && { labels }) });
}

/** How far a stage is, and what it and those beside have used for it. */
export type Progress = { atMs: number; done: number; cpu: Cpu; publishCalls: number };

/** Looks at one stage. */
export async function readProgress(system: System, stage: MeasuredService): Promise<Progress> {
  const sample = await sampleService(system, stage);
  const atMs = performance.now();
  const cpu = { [stage]: sample.cpuMicros, ...(await sampleBeside(system)) };
  const publishCalls = total(sample.count, 'triplock_dispatcher_publish_seconds_count');
  return { atMs, done: doneBy(stage)(sample.count), cpu, publishCalls };
}

// Asked of the services and not of the database, which would count rows for as long as it measures.
const lookEveryMs = 250;
/** A stage that stands still for so long has lost something; the audit can tell what. */
const standstillMs = 60_000;

/**
 * Looks at a stage until it has done so many since `from`, and returns every look.
 *
 * @throws when it does nothing any more and some are missing.
 */
export async function watchStage(
  system: System,
  stage: MeasuredService,
  { from, count }: { from: number; count: number },
): Promise<Progress[]> {
  const looks = [await readProgress(system, stage)];
  let movedAt = performance.now();
  for (;;) {
    const last = looks.at(-1)!;
    if (last.done - from >= count) return looks;
    system.progress(`${stage}: ${last.done - from} of ${count}`);
    await delay(lookEveryMs, undefined, { signal: system.signal });
    const now = await readProgress(system, stage);
    if (now.done > last.done) movedAt = now.atMs;
    if (now.atMs - movedAt > standstillMs) {
      const seconds = standstillMs / 1_000;
      throw new Error(`${stage} stood still for ${seconds} s at ${now.done - from} of ${count}`);
    }
    looks.push(now);
  }
}

/** A figure over all repetitions. */
export type Spread = { min: number; median: number; max: number };

/** Smallest, middle and largest of those that are known; of an even number between two. */
export function spread(values: readonly (number | null | undefined)[]): Spread | undefined {
  const sorted = values.filter((value) => Number.isFinite(value)).map(Number);
  if (sorted.length === 0) return undefined;
  sorted.sort((one, other) => one - other);
  const below = sorted[Math.floor((sorted.length - 1) / 2)]!;
  const above = sorted[Math.ceil((sorted.length - 1) / 2)]!;
  return { min: sorted[0]!, median: (below + above) / 2, max: sorted.at(-1)! };
}
