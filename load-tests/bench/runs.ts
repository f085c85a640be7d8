import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { System } from '@triplock/demo';
import type { Terminal } from '@triplock/command';
import { newRun, type RunOnly } from '../systems.ts';
import { countsBetween, readWhenQuiet, type CountReader, type ServerCounts } from './counts.ts';
import { startEmptyPost, type EmptyPostState } from './stand-ins.ts';
import { startHelper, type Helper } from './helper-process.ts';
import type { LoadOrder, LoadReport } from './load-generator.ts';
import {
  cpuBetween,
  measuredServices,
  readProgress,
  sampleCpu,
  watchStage,
  type BenchOptions,
  type Cpu,
  type MeasuredService,
  type Progress,
} from './measurements.ts';

/** What one bench works with. */
export type Bench = {
  system: System;
  terminal: Terminal;
  options: BenchOptions;
  generator: Helper<LoadOrder, LoadReport>;
  /** Of the empty POST, which is loaded while the system is. */
  besides: Helper<LoadOrder, LoadReport>;
  emptyPost: Helper<object, EmptyPostState>;
  /**
   * Absent of a system that is somebody else's: its services stay up, its servers are not asked.
   */
  own?: { runOnly: RunOnly; counts: CountReader };
};

/** Runs `work` with the helper processes, and ends them in any case. */
export async function withHelpers<Result>(
  bench: Omit<Bench, 'generator' | 'besides' | 'emptyPost'>,
  work: (bench: Bench) => Promise<Result>,
): Promise<Result> {
  const { signal } = bench.system;
  const started: { stop(): Promise<void> }[] = [];
  const keep = <Some extends { stop(): Promise<void> }>(helper: Some): Some => {
    started.push(helper);
    return helper;
  };
  try {
    const startGenerator = () => startHelper<LoadOrder, LoadReport>('load-generator.ts', signal);
    const generator = keep(await startGenerator());
    const besides = keep(await startGenerator());
    const emptyPost = keep(await startEmptyPost(signal));
    return await work({ ...bench, generator, besides, emptyPost });
  } finally {
    for (const helper of started) await helper.stop();
  }
}

/** Half of the payments within the one, 99 of 100 within the other; milliseconds. */
export type Percentiles = { p50: number; p99: number };

/** Load, and all that came of it in the services that ran. */
export type Run = {
  load: LoadReport;
  /** From the first request until all of them had done their part. */
  cpu: Cpu;
  counts?: ServerCounts;
  /** From the first payment's claim until the last of them was published, and delivered. */
  publishedMs: number | null;
  deliveredMs: number | null;
  /** From each payment's claim. */
  toPublished: Percentiles | null;
  toDelivered: Percentiles | null;
};

/** Load on the empty POST while the system is loaded too. */
export type EmptyPostRun = { load: LoadReport; cpuMicros: number };

/** A stage that drains a backlog with the later ones stopped; the gateway, that makes one. */
export type StageRun = {
  perSecond: number;
  of: number;
  cpu: Cpu;
  counts?: ServerCounts;
  /** How often it was looked at while it was at work on what the figures are of. */
  looks?: number;
};

/** What a load differs in from the closed loop of book transfers that the options say. */
export type Wanted = { seconds?: number; rate?: number; cards?: true };

/** Loads the system and waits until every service that runs has done its part. */
export async function runLoad(
  bench: Pick<Bench, 'system' | 'options' | 'generator' | 'own'>,
  wanted: Wanted,
  running: readonly MeasuredService[],
): Promise<{ run: Run; order: LoadOrder }> {
  const { system, own, generator } = bench;
  const order = orderFor(bench, wanted);
  const drained = await expectDrained(system, running);
  const countsBefore = await own?.counts.read();
  const before = await sampleCpu(system, running);
  const load = await generator.ask(order);
  await drained(load.accepted);
  const cpu = cpuBetween(before, await sampleCpu(system, running));
  const counted = countsBefore && countsBetween(countsBefore, await own!.counts.read());
  const times = await readTimes(system, order.run);
  return { run: { load, cpu, ...(counted && { counts: counted }), ...times }, order };
}

/** Looks how far each service is, and then waits until each has done so many more. */
export async function expectDrained(
  system: System,
  running: readonly MeasuredService[],
): Promise<(count: number) => Promise<void>> {
  const stages = running.filter((name) => name !== 'ingest-gateway');
  const from = await Promise.all(stages.map((stage) => readProgress(system, stage)));
  return async (count) => {
    await Promise.all(
      stages.map((stage, n) => watchStage(system, stage, { from: from[n]!.done, count })),
    );
  };
}

// Asked once a run is over. A time is null where nothing has come so far.
const timesOfRun = `
  WITH paid AS (
    SELECT transactions.created_at, outbox.published_at, deliveries.finished_at
    FROM ledger.transactions
    LEFT JOIN ledger.outbox USING (txn_id)
    LEFT JOIN webhooks.deliveries USING (event_id)
    WHERE idempotency_key LIKE $1
  ), apart AS (
    SELECT extract(epoch FROM created_at - min(created_at) OVER ())::float8 * 1000 AS began,
           extract(epoch FROM published_at - created_at)::float8 * 1000 AS published,
           extract(epoch FROM finished_at - created_at)::float8 * 1000 AS delivered
    FROM paid
  )
  SELECT max(began + published) AS "publishedMs", max(began + delivered) AS "deliveredMs",
         percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY published) AS published,
         percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY delivered) AS delivered
  FROM apart`;

type Times = Pick<Run, 'publishedMs' | 'deliveredMs' | 'toPublished' | 'toDelivered'>;

async function readTimes({ database }: System, run: string): Promise<Times> {
  type Row = Pick<Run, 'publishedMs' | 'deliveredMs'> & Record<'published' | 'delivered', number[]>;
  const [row] = await database.query<Row>(timesOfRun, [`bench-${run}-%`]);
  const { publishedMs, deliveredMs, published, delivered } = row!;
  const of = (each: number[] | null): Percentiles | null =>
    each === null ? null : { p50: each[0]!, p99: each[1]! };
  return {
    publishedMs,
    deliveredMs,
    toPublished: publishedMs === null ? null : of(published),
    toDelivered: deliveredMs === null ? null : of(delivered),
  };
}

/** Starts a stage on what waits for it, and waits until that is done. */
export async function drainStage(
  { system, terminal, own }: Pick<Bench, 'system' | 'terminal' | 'own'>,
  {
    stage,
    running,
    count,
  }: { stage: MeasuredService; running: readonly MeasuredService[]; count: number },
): Promise<StageRun> {
  terminal.note(`${stage}: a backlog of ${count}`);
  const before = await own!.counts.read();
  await own!.runOnly(running);
  const looks = await watchStage(system, stage, { from: 0, count });
  const [first, last] = windowOf(looks, count);
  const done = Math.max(1, last.done - first.done);
  return {
    looks: looks.filter(({ atMs }) => atMs > first.atMs && atMs <= last.atMs).length,
    perSecond: (done * 1_000) / (last.atMs - first.atMs),
    of: count,
    cpu: perPayment(cpuBetween(first.cpu, last.cpu), done),
    counts: countsBetween(before, await readWhenQuiet(own!.counts)),
  };
}

/** The looks from a fifth of it, when the code is warm, to the last one before nothing is left. */
export function windowOf(looks: readonly Progress[], count: number): [Progress, Progress] {
  const first = looks.find(({ done }) => done >= count / 5) ?? looks[0]!;
  const last = looks.findLast(({ done, atMs }) => done < count && atMs > first.atMs);
  return [last === undefined ? looks[0]! : first, last ?? looks.at(-1)!];
}

export function perPayment(cpu: Cpu, payments: number): Cpu {
  const each = Object.entries(cpu).map(([name, micros]) => [name, micros / payments] as const);
  return Object.fromEntries(each);
}

// A rate needs as many connections as requests are under way when the system is slow.
const connectionsAtRate = 256;

/** Load on the system, from all its partners, with keys that are fresh. */
export function orderFor(
  { system, options }: Pick<Bench, 'system' | 'options'>,
  wanted: Wanted,
): LoadOrder {
  const { gateways, partners } = system.endpoints;
  const { connections, seconds } = options;
  return {
    targets: gateways,
    apiKeys: partners.map(({ apiKey }) => apiKey),
    run: newRun(),
    connections: wanted.rate === undefined ? connections : Math.max(connections, connectionsAtRate),
    seconds,
    ...wanted,
  };
}

/** Has a service listen for a debugger at a port that its log tells. */
export const profiledSettings = { NODE_OPTIONS: '--inspect=127.0.0.1:0' };

/** One more run, once code is warm, of which each service leaves a CPU profile in the folder. */
export async function profileRun(bench: Bench, folder: string): Promise<void> {
  const { system, terminal } = bench;
  mkdirSync(folder, { recursive: true });
  // The last repetition ends with services that were just started.
  await runLoad(bench, {}, measuredServices);
  terminal.note('one more window, profiled');
  const sessions = await Promise.all(
    measuredServices.map(async (name) => ({ name, ask: await openInspector(system.home, name) })),
  );
  for (const { ask } of sessions) {
    await ask('Profiler.enable');
    await ask('Profiler.start');
  }
  await runLoad(bench, {}, measuredServices);
  for (const { name, ask } of sessions) {
    const { profile } = await ask('Profiler.stop');
    writeFileSync(join(folder, `${name}.cpuprofile`), JSON.stringify(profile));
    await ask('close');
  }
}

type Ask = (method: string) => Promise<{ profile?: unknown }>;

/** Chrome DevTools Protocol over the WebSocket whose address Node prints; `close` ends it. */
async function openInspector(home: string, service: string): Promise<Ask> {
  const log = readFileSync(join(home, 'logs', `${service}-1.log`), 'utf8');
  const url = [...log.matchAll(/Debugger listening on (ws:\S+)/g)].at(-1)?.[1];
  if (url === undefined) throw new Error(`${service} listens for no debugger`);
  const socket = new WebSocket(url);
  await once(socket, 'open');
  let asked = 0;
  return async (method) => {
    if (method === 'close') {
      socket.close();
      return {};
    }
    const id = (asked += 1);
    socket.send(JSON.stringify({ id, method }));
    for (;;) {
      const [{ data }] = (await once(socket, 'message')) as [{ data: string }];
      const answer = JSON.parse(data) as { id?: number; result?: { profile?: unknown } };
      if (answer.id === id) return answer.result ?? {};
    }
  };
}
