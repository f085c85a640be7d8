import { setTimeout as delay } from 'node:timers/promises';
import { auditSystem, type System } from '@triplock/demo';
import type { AuditReport } from '@triplock/inspect';
import type { Terminal } from '@triplock/command';
import { noteClaims, onOwnSystem, type OwnSystem, type RunOnly } from '../systems.ts';
import { openServerCounts } from './counts.ts';
import type { LoadOrder, LoadReport } from './load-generator.ts';
import {
  cpuBetween,
  measuredServices,
  pipelineServices,
  readPeaks,
  sampleCpu,
  type BenchOptions,
  type MeasuredService,
} from './measurements.ts';
import {
  drainStage,
  expectDrained,
  orderFor,
  perPayment,
  profileRun,
  runLoad,
  withHelpers,
  type Bench,
  type EmptyPostRun,
  type Run,
  type StageRun,
} from './runs.ts';

/** A rate, and whether the system kept up with it. */
export type RateRun = Run & { rate: number; held: boolean };

/** One repetition of everything that the sheet has. */
export type Repetition = {
  /** Of a system of the bench's own. */
  stages?: Readonly<Record<MeasuredService, StageRun>>;
  hotPath?: Run & { emptyPost: EmptyPostRun };
  everything: Run & { emptyPost: EmptyPostRun };
  /** The same keys sent again, and what answering them took the gateway. */
  replay: { load: LoadReport; gatewayMicros: number };
  cards: Run;
  /** Cores that everything takes with nothing to do. */
  idleCores: number;
  rates: readonly RateRun[];
  /** At half of what is accepted and delivered at most. */
  half: RateRun;
  /** The first seconds of services that were just started. */
  cold?: RateRun;
  /** MiB of each service at its peak, from its start. */
  peaksMiB: Readonly<Record<string, number>>;
};

const auditWaitMs = 120_000;

/** Repetitions, and the audit of what they left. */
export type Series = {
  repetitions: readonly Repetition[];
  audit: Pick<AuditReport, 'ok' | 'counts' | 'drift'>;
  replicas: number;
};

/** Measures some repetitions, then audits. Without `runOnly` the services stay as they are. */
export async function measure(
  { system, terminal, profile }: { system: System; terminal: Terminal; profile?: string },
  { options, from, to }: { options: BenchOptions; from: number; to: number },
  runOnly?: RunOnly,
): Promise<Series> {
  await noteClaims(system, terminal);
  const counts = runOnly && (await openServerCounts(system));
  const own = runOnly && counts && { own: { runOnly, counts } };
  try {
    return await withHelpers({ system, terminal, options, ...own }, async (bench) => {
      const repetitions: Repetition[] = [];
      for (let n = from; n <= to; n += 1) {
        terminal.note(`repetition ${n} of ${options.repeat}`);
        repetitions.push(await repeatOnce(bench));
      }
      if (profile !== undefined && to === options.repeat) await profileRun(bench, profile);
      terminal.note('audit');
      const { ok, counts, drift } = await auditSystem(system, auditWaitMs);
      const replicas = system.endpoints.gateways.length;
      return { repetitions, audit: { ok, counts, drift }, replicas };
    });
  } finally {
    await counts?.close();
  }
}

/**
 * Each repetition on a system of its own: none begins with another's tables, and the emulator of
 * Pub/Sub, which keeps every message in memory, holds the messages of one.
 */
export async function measureOwn(
  own: Omit<OwnSystem, 'countsStatements'> & { profile?: string },
  options: BenchOptions,
): Promise<Series> {
  const all: Series[] = [];
  for (let n = 1; n <= options.repeat; n += 1) {
    all.push(
      await onOwnSystem({ ...own, countsStatements: true }, (system, runOnly) =>
        measure({ ...own, system }, { options, from: n, to: n }, runOnly),
      ),
    );
  }
  const audits = all.map(({ audit }) => audit);
  const accepted = audits.reduce((sum, { counts }) => sum + counts.accepted, 0);
  const audit = {
    ok: audits.every(({ ok }) => ok),
    counts: { ...audits[0]!.counts, accepted },
    drift: audits.flatMap(({ drift }) => drift),
  };
  return { ...all[0]!, repetitions: all.flatMap(({ repetitions }) => repetitions), audit };
}

const rates = [50, 200, 600, 1_000];
const coldRate = 200;

/** Everything once. The terminal is told what it does. */
async function repeatOnce(bench: Bench): Promise<Repetition> {
  const { system, terminal, options } = bench;
  const alone = bench.own && (await runAlone(bench, bench.own.runOnly));
  await warmUp(bench, measuredServices);
  terminal.note('everything together');
  const { run: everything, order } = await runLoad(bench, {}, measuredServices);
  const emptyPost = await runEmptyPost(bench, measuredServices);
  terminal.note('retries');
  const replay = await runReplays(bench, { ...order, again: everything.load.accepted });
  const { run: cards } = await runLoad(bench, { cards: true }, measuredServices);
  const peaksMiB = readPeaks(system);
  await comeToRest(bench);
  terminal.note('nothing to do');
  const idleCores = await measureIdle(system, options.seconds * idle.looked);
  const held: RateRun[] = [];
  for (const rate of rates) {
    const run = await runAtRate(bench, rate);
    held.push(run);
    if (!run.held) break;
  }
  const most = (everything.load.accepted * 1_000) / (everything.deliveredMs ?? NaN);
  const half = await runAtRate(bench, Math.max(1, Math.round(most / 2)));
  const cold = bench.own && (await runCold(bench, bench.own.runOnly));
  const together = { everything: { ...everything, emptyPost }, replay, cards, idleCores };
  return { ...alone, ...together, rates: held, half, ...(cold && { cold }), peaksMiB };
}

/** The hot path alone, and each stage with the later ones stopped. */
async function runAlone(
  bench: Bench,
  runOnly: RunOnly,
): Promise<Pick<Repetition, 'hotPath' | 'stages'> & object> {
  const { terminal } = bench;
  const [gateway, ...behind] = pipelineServices as [MeasuredService, ...MeasuredService[]];
  terminal.note('the gateway alone, which makes the backlog');
  await runOnly([gateway]);
  let backlog = await sendShort(bench);
  const { run } = await runLoad(bench, {}, [gateway]);
  backlog += run.load.accepted;
  const perSecond = (run.load.accepted * 1_000) / run.load.tookMs;
  const ofGateway = {
    perSecond,
    of: run.load.accepted,
    cpu: perPayment(run.cpu, run.load.accepted),
  };
  const stages: [MeasuredService, StageRun][] = [
    [gateway, { ...ofGateway, ...(run.counts && { counts: run.counts }) }],
  ];
  const running = [gateway];
  const drain = async (stage: MeasuredService, count: number) => {
    running.push(stage);
    stages.push([stage, await drainStage(bench, { stage, running, count })]);
  };
  for (const stage of behind) await drain(stage, backlog);

  const warmed = await warmUp(bench, running);
  terminal.note('the hot path alone');
  const { run: hot } = await runLoad(bench, {}, running);
  const emptyPost = await runEmptyPost(bench, running);
  backlog += warmed + hot.load.accepted + emptyPost.beside;
  for (const stage of measuredServices.slice(running.length)) await drain(stage, backlog);
  return {
    stages: Object.fromEntries(stages) as Record<MeasuredService, StageRun>,
    hotPath: { ...hot, emptyPost },
  };
}

const windowsMax = 10;
const agreeWithin = 0.1;

/**
 * Loads until two windows in a row agree in rate and CPU within a tenth: code that was never hot is
 * compiled, caches are filled. Bounded, for a machine on which no two agree. Returns what it sent.
 */
export async function warmUp(bench: Bench, running: readonly MeasuredService[]): Promise<number> {
  const { system, terminal, options } = bench;
  const drained = await expectDrained(system, running);
  terminal.note('warming up');
  let sent = 0;
  let last = { rate: 0, micros: 0 };
  for (let window = 1; window <= windowsMax; window += 1) {
    terminal.progress(`window ${window} of at most ${windowsMax}`);
    const before = await sampleCpu(system, running);
    const load = await bench.generator.ask(orderFor(bench, { seconds: options.seconds / 4 }));
    sent += load.accepted;
    const cpu = cpuBetween(before, await sampleCpu(system, running));
    const micros = pipelineServices.reduce((sum, name) => sum + (cpu[name] ?? 0), 0);
    const now = { rate: load.accepted / load.tookMs, micros: micros / load.accepted };
    const agree = (one: number, other: number) => Math.abs(one / other - 1) < agreeWithin;
    if (agree(now.rate, last.rate) && agree(now.micros, last.micros)) break;
    if (window === windowsMax) terminal.note('no two windows agreed: it goes on as it is');
    last = now;
  }
  await drained(sent);
  return sent;
}

async function sendShort(bench: Bench): Promise<number> {
  const order = orderFor(bench, { seconds: bench.options.seconds / 4 });
  return (await bench.generator.ask(order)).accepted;
}

/**
 * Loads the empty POST while the system is loaded as before, so that both meet the same machine.
 */
async function runEmptyPost(
  bench: Bench,
  running: readonly MeasuredService[],
): Promise<EmptyPostRun & { beside: number }> {
  const { system, terminal, options, generator, besides, emptyPost } = bench;
  terminal.note('the empty POST, beside the same load');
  const seconds = Math.max(1, options.seconds / 2);
  const drained = await expectDrained(system, running);
  const { url } = await emptyPost.ask({});
  const order = { ...orderFor(bench, { seconds }), targets: [url] };
  await besides.ask({ ...order, seconds: seconds / 2 }); // Warm too.
  const { cpuMicros: before } = await emptyPost.ask({});
  const [load, beside] = await Promise.all([
    besides.ask(order),
    generator.ask(orderFor(bench, { seconds })),
  ]);
  const { cpuMicros: after } = await emptyPost.ask({});
  await drained(beside.accepted);
  return { load, cpuMicros: after - before, beside: beside.accepted };
}

/** Sends the keys of a run again, for half as long: a replay takes less. */
async function runReplays(bench: Bench, order: LoadOrder): Promise<Repetition['replay']> {
  const gateway: readonly MeasuredService[] = ['ingest-gateway'];
  const before = await sampleCpu(bench.system, gateway);
  const load = await bench.generator.ask({ ...order, seconds: Math.max(1, order.seconds / 2) });
  const cpu = cpuBetween(before, await sampleCpu(bench.system, gateway));
  return { load, gatewayMicros: cpu['ingest-gateway'] ?? NaN };
}

/** Beyond it the answers do not come as fast as they are asked for. */
const lateMs = 2_000;

async function runAtRate(bench: Bench, rate: number): Promise<RateRun> {
  const { terminal, options } = bench;
  terminal.note(`${rate} a second`);
  const { run } = await runLoad(bench, { rate }, measuredServices);
  const { accepted, tookMs } = run.load;
  const held = accepted >= 0.99 * rate * options.seconds;
  return { ...run, rate, held: held && tookMs < options.seconds * 1_000 + lateMs };
}

async function runCold(bench: Bench, runOnly: RunOnly): Promise<RateRun> {
  bench.terminal.note('from a cold start');
  await runOnly([]);
  await runOnly(measuredServices);
  return runAtRate(bench, coldRate);
}

const rest = { cores: 0.08, seconds: 5 };
/** How long what does nothing is looked at, and waited for, by seconds of load of a window. */
const idle = { looked: 2, waited: 18 };

/**
 * Waits for what comes behind the loads: the provider reports each card, PostgreSQL cleans up, an
 * audit compares it all. What is measured next would be charged with that.
 */
async function comeToRest({ system, terminal, options }: Bench): Promise<void> {
  terminal.note('waiting until all is at rest');
  const until = performance.now() + options.seconds * idle.waited * 1_000;
  for (let cores = Infinity; cores > rest.cores;) {
    cores = await measureIdle(system, rest.seconds);
    terminal.progress(`${cores.toFixed(2)} cores`);
    if (performance.now() > until) return terminal.note('it did not rest: it goes on as it is');
  }
}

async function measureIdle(system: System, seconds: number): Promise<number> {
  const before = await sampleCpu(system, measuredServices);
  const startedAt = performance.now();
  await delay(seconds * 1_000, undefined, { signal: system.signal });
  const used = cpuBetween(before, await sampleCpu(system, measuredServices));
  const tookMicros = (performance.now() - startedAt) * 1_000;
  return Object.values(used).reduce((sum, micros) => sum + micros, 0) / tookMicros;
}
