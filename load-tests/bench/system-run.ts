import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { System } from '@triplock/demo';
import type { Terminal } from '@triplock/operator';
import { startEmptyPost, type EmptyPostState } from './empty-post.ts';
import {
  measuredParts,
  measuredServices,
  sampleParts,
  sampleServices,
  watchMemory,
  type EmptyPostRun,
  type LoadAmount,
  type LoadOrder,
  type LoadReport,
  type MeasuredPart,
  type MeasuredService,
  type MemoryPeaks,
  type Sample,
  type ServiceUse,
  type SystemRun,
} from './measurements.ts';
import { startHelper, type Helper } from './helper-process.ts';

/** What one bench works with. */
export type Bench = {
  system: System;
  terminal: Terminal;
  generator: Helper<LoadOrder, LoadReport>;
  emptyPost: Helper<object, EmptyPostState>;
};

/** CPU that each service uses with nothing to do, as a part of one core. */
export type IdleLoad = Readonly<Record<MeasuredService, number>>;

/** Runs `work` with the two helper processes, and ends them in any case. */
export async function withHelpers<Result>(
  { system, terminal }: { system: System; terminal: Terminal },
  work: (bench: Bench) => Promise<Result>,
): Promise<Result> {
  const generator = await startHelper<LoadOrder, LoadReport>('load-generator.ts', system.signal);
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
  { system, generator, emptyPost }: Bench,
  amount: LoadAmount,
): Promise<EmptyPostRun> {
  const { url, cpuMicros: before } = await emptyPost.ask({});
  const load = await generator.ask({ ...orderFor(system, amount), targets: [url] });
  const { cpuMicros: after } = await emptyPost.ask({});
  return { load, cpuMicros: after - before };
}

/** Loads the system and waits until nothing of it is left to do. */
export async function runSystem(
  bench: Bench,
  amount: LoadAmount & { idle: IdleLoad },
): Promise<SystemRun> {
  const { system, terminal, generator } = bench;
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
    const replay = await runReplays(bench, { ...order, again: accepted });
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
    await memory.stop().catch(() => undefined); // What failed first is reported.
  }
}

/** Sends the keys of a run again, for half as long: a replay takes less. */
async function runReplays(
  { system, generator }: Bench,
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

/** Load on the system, from its first partner, with keys that are fresh. */
export function orderFor(
  { endpoints }: System,
  { seconds, connections }: LoadAmount,
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

// How many payments came how far, everything ever counted, so that a run is the growth between two.
// `now` and the last times are the database's clock; a last time is null where nothing is.
const countEffects = `
  SELECT
    clock_timestamp() AS now,
    (SELECT count(*)::integer FROM ledger.transactions WHERE state <> 'pending') AS settled,
    (SELECT count(*)::integer FROM ledger.outbox WHERE state = 'published') AS published,
    (SELECT max(published_at) FROM ledger.outbox) AS "lastPublished",
    (SELECT count(*)::integer FROM notifier.deliveries WHERE state = 'delivered') AS delivered,
    (SELECT max(finished_at) FROM notifier.deliveries) AS "lastDelivered",
    (SELECT count(*)::integer FROM auditor.accepted) AS recorded,
    (SELECT count(*)::integer FROM auditor.published) AS witnessed`;

/** How far payments came, counted since the beginning, at one moment of the database's clock. */
export type Effects = {
  now: Date;
  settled: number;
  published: number;
  lastPublished: Date | null;
  delivered: number;
  lastDelivered: Date | null;
  /** What the auditor saw of it, accepted and published. */
  recorded: number;
  witnessed: number;
};

/** Counts all effects there are. */
export async function readEffects({ database }: System): Promise<Effects> {
  const [row] = await database.query<Effects>(countEffects);
  return row!;
}

// Asked of PostgreSQL, because asking the services for it would cost the CPU that is measured.
const askEveryMs = 500;
// A drain that stands still for so long has lost something; the audit can tell what.
const standstillMs = 60_000;

const layers = ['settled', 'published', 'delivered', 'recorded', 'witnessed'] as const;

/**
 * Waits until `accepted` payments more than `before` have had all their effects.
 *
 * @throws when nothing moves any more and some are missing, with how far the others came.
 */
async function untilDrained(
  system: System,
  wanted: { before: Effects; accepted: number; terminal: Terminal },
): Promise<Effects> {
  const { before, accepted, terminal } = wanted;
  let last = '';
  let movedAt = performance.now();
  for (;;) {
    const now = await readEffects(system);
    const grown = layers.map((layer) => [layer, now[layer] - before[layer]] as const);
    if (grown.every(([, count]) => count >= accepted)) return now;
    const progress = grown.map(([layer, count]) => `${count} ${layer}`).join(', ');
    terminal.progress(`draining: of ${accepted} accepted ${progress}`);
    if (progress !== last) [last, movedAt] = [progress, performance.now()];
    if (performance.now() - movedAt > standstillMs) {
      const seconds = standstillMs / 1_000;
      throw new Error(`nothing moved for ${seconds} s: of ${accepted} accepted ${progress}`);
    }
    await delay(askEveryMs, undefined, { signal: system.signal });
  }
}
