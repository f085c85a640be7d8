import { randomBytes } from 'node:crypto';
import type { System, Terminal } from '@triplock/demo';
import type { BenchOptions } from './bench-options.ts';
import { readEffects, untilDrained } from './effects.ts';
import { startEmptyPost, type EmptyPostState } from './empty-post/empty-post.ts';
import type { LoadOrder, LoadReport } from './load/load-report.ts';
import {
  measuredParts,
  measuredServices,
  type EmptyPostRun,
  type MeasuredPart,
  type MeasuredService,
  type ServiceUse,
  type SystemRun,
} from './measurements.ts';
import { sampleParts } from './sample-parts.ts';
import { sampleServices, type Sample } from './sample-services.ts';
import { startHelper, type Helper } from './start-helper.ts';
import { watchMemory, type MemoryPeaks } from './watch-memory.ts';

/** What one bench works with. */
export type BenchParts = {
  system: System;
  terminal: Terminal;
  generator: Helper<LoadOrder, LoadReport>;
  emptyPost: Helper<object, EmptyPostState>;
};

/** CPU that each service uses with nothing to do, as a part of one core. */
export type IdleLoad = Readonly<Record<MeasuredService, number>>;

/** Runs `work` with the two helper processes, and ends them in any case. */
export async function withHelpers<Result>(
  { system, terminal }: Pick<BenchParts, 'system' | 'terminal'>,
  work: (parts: BenchParts) => Promise<Result>,
): Promise<Result> {
  const generator = await startHelper<LoadOrder, LoadReport>('load/main.ts', system.signal);
  try {
    const emptyPost = await startEmptyPost(system.signal);
    try {
      return await work({ system, terminal, generator, emptyPost });
    } finally {
      await emptyPost.stop();
    }
  } finally {
    await generator.stop();
  }
}

/** Loads the empty POST. */
export async function runEmptyPost(
  { system, generator, emptyPost }: BenchParts,
  amount: Pick<BenchOptions, 'seconds' | 'connections'>,
): Promise<EmptyPostRun> {
  const { url, cpuMicros: before } = await emptyPost.ask({});
  const load = await generator.ask({ ...orderFor(system, amount), targets: [url] });
  const { cpuMicros: after } = await emptyPost.ask({});
  return { load, cpuMicros: after - before };
}

/** Loads the system and waits until nothing of it is left to do. */
export async function runSystem(
  parts: BenchParts,
  amount: Pick<BenchOptions, 'seconds' | 'connections'> & { idle: IdleLoad },
): Promise<SystemRun> {
  const { system, terminal, generator } = parts;
  const memory = watchMemory(system);
  try {
    const effects = await readEffects(system);
    const partsBefore = await sampleParts(system);
    const before = await sampleServices(system);
    const startedAt = performance.now();
    const order = { ...orderFor(system, amount), targets: system.endpoints.gateways };
    const load = await generator.ask(order);
    const { accepted } = load;
    const drained = await untilDrained(system, { before: effects, accepted, terminal });
    const drainedMs = performance.now() - startedAt;
    const after = await sampleServices(system);
    const partsAfter = await sampleParts(system);
    const replay = await runReplays(parts, { ...order, again: accepted });
    const peaks = await memory.stop();
    const since = (last: Date | null) => (last === null ? NaN : +last - +effects.now);
    return {
      load,
      ...(partsBefore && partsAfter && { partMicros: growth(partsBefore, partsAfter) }),
      replay,
      services: usesOf({ before, after, peaks, idle: amount.idle, tookMs: drainedMs }),
      publishedMs: since(drained.lastPublished),
      deliveredMs: since(drained.lastDelivered),
      drainedMs,
    };
  } finally {
    await memory.stop().catch(() => undefined); // What failed first is told.
  }
}

/** Sends the keys of a run again, for half as long: a replay takes less. */
async function runReplays(
  { system, generator }: Pick<BenchParts, 'system' | 'generator'>,
  order: LoadOrder,
): Promise<SystemRun['replay']> {
  const gateway = async () => (await sampleServices(system))['ingest-gateway'].cpuMicros;
  const before = await gateway();
  const load = await generator.ask({ ...order, seconds: Math.max(1, order.seconds / 2) });
  return { load, gatewayMicros: (await gateway()) - before };
}

function growth(
  before: Readonly<Record<MeasuredPart, number>>,
  after: Readonly<Record<MeasuredPart, number>>,
): NonNullable<SystemRun['partMicros']> {
  const grown = measuredParts.map((name) => [name, after[name] - before[name]] as const);
  return Object.fromEntries(grown) as NonNullable<SystemRun['partMicros']>;
}

function orderFor(
  { endpoints }: System,
  { seconds, connections }: Pick<BenchOptions, 'seconds' | 'connections'>,
): Omit<LoadOrder, 'targets'> {
  const { apiKey } = endpoints.partners[0]!;
  return { apiKey, run: randomBytes(6).toString('hex'), seconds, connections };
}

function usesOf(run: {
  before: Sample;
  after: Sample;
  peaks: MemoryPeaks;
  idle: IdleLoad;
  tookMs: number;
}): SystemRun['services'] {
  const { before, after, peaks, idle, tookMs } = run;
  const useOf = (name: MeasuredService): ServiceUse => {
    const cpuMicros = after[name].cpuMicros - before[name].cpuMicros;
    if (cpuMicros < 0) throw new Error(`${name} was started again in the middle of a run`);
    return {
      cpuMicros,
      idleMicros: idle[name] * tookMs * 1_000,
      rssBytesPeak: peaks[name],
      rssBytesEnd: after[name].rssBytes,
    };
  };
  const uses = measuredServices.map((name) => [name, useOf(name)] as const);
  return Object.fromEntries(uses) as SystemRun['services'];
}
