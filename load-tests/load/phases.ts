import { consumers } from '@triplock/pipeline';
import { sumSeries, withProviderLatency, type System } from '@triplock/demo';
import { continueProcess, pauseProcess, type ServiceName } from '@triplock/launcher';
import { readMetrics } from '../systems.ts';
import { atMost, together, type Check, type Tries } from './judge.ts';
import type { K6Run } from './k6.ts';

/** A part of a run, at a rate of its own or beside something slow. */
export type Phase = {
  name: string;
  /** How many times the scenario's rate; 1 by default. */
  times?: number;
  /** How long, seconds; as long as was asked for by default. */
  seconds?: number;
  beside?: SlowPart;
};

/** What is slow: it stands still, or answers after seconds; slower is only what is away. */
export type SlowPart = 'receiver' | 'provider' | 'consumer';

/** What the gateways measured of payments during a phase, and what was published meanwhile. */
export type PhaseFigures = {
  name: string;
  rate: number;
  accepted: Answers;
  /** 4xx and 5xx: at most 429 and 503 here. */
  refused: Answers;
  published: number;
};

/**
 * `p90Ms` and `p99Ms` as Prometheus reads them from buckets, 0 for none; `within50Ms` is a share.
 */
type Answers = { count: number; p90Ms: number; p99Ms: number; within50Ms: number };

/** `warm` is what processes need that were just started, and is compared with nothing. */
const warm: Phase = { name: 'warm', seconds: 5 };

/** Beyond the knee, and what is left of it 5 s later. */
export const overload: readonly Phase[] = [
  warm,
  { name: 'before' },
  { name: 'beyond', times: 6 },
  { name: 'falling', seconds: 5 },
  { name: 'after' },
];

/** The same load without a slow part and beside it. */
export function besideSlow(beside: SlowPart): readonly Phase[] {
  return [warm, { name: 'without' }, { name: 'beside', beside }];
}

/** Sends one phase after the other, at once, without waiting until the earlier one is done with. */
export async function sendPhases(
  system: System,
  { scenario: { phases = [] }, rate, seconds }: PhasedLoad,
  { terminal, sendSome }: Pick<Tries, 'terminal'> & PhaseSender,
): Promise<{ run: K6Run; phases: PhaseFigures[]; knee?: undefined }> {
  const runs: K6Run[] = [];
  const figures: PhaseFigures[] = [];
  for (const { name, times = 1, seconds: own, beside } of phases) {
    const before = await readCounters(system);
    const sending = () => sendSome({ rate: rate * times, seconds: own ?? seconds });
    runs.push(await (beside === undefined ? sending() : besides[beside](system, sending)));
    const grown = figuresOf(before, await readCounters(system));
    const phase = { name, rate: rate * times, ...grown };
    figures.push(phase);
    terminal.note(describe(phase));
  }
  const moments = runs.flatMap((each) => each.moments);
  const thresholds = runs.flatMap((each) => each.thresholds);
  // Of the load as it is without what the scenario is about.
  const latencyOf = phases[1]!.name;
  const run = { ...together(runs, runs[1]!), thresholds, moments, latencyOf };
  return { run, phases: figures };
}

type PhasedLoad = { scenario: { phases?: readonly Phase[] }; rate: number; seconds: number };

/** Sends a load at a rate, for so long. */
export type PhaseSender = { sendSome(load: { rate: number; seconds?: number }): Promise<K6Run> };

/** Has something be slow while `work` goes on. */
type Besides = (system: System, work: () => Promise<K6Run>) => Promise<K6Run>;

const slowProvider = { medianMs: 5_000, p99Ms: 8_000 };

const besides: Readonly<Record<SlowPart, Besides>> = {
  receiver: (system, work) => standStill(system, ['catcher'], work),
  provider: (system, work) => withProviderLatency(system, slowProvider, work),
  // The last of the list, for whom no partner waits.
  consumer: (system, work) => standStill(system, namesOf(system, consumers.at(-1)!.name), work),
};

function namesOf(system: System, service: ServiceName): string[] {
  return system.replicas(service).map(({ name }) => name);
}

/** Connections stay open and nothing answers. */
async function standStill<Result>(
  { home }: System,
  names: readonly string[],
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    for (const name of names) await pauseProcess({ home, name });
    return await work();
  } finally {
    for (const name of names) await continueProcess({ home, name });
  }
}

const bounds = {
  /** Inside the gateway, of whoever is refused. */
  refusedMs: 50,
  /** Of what is accepted beyond the knee, and of the hot path beside a slow part. */
  beyond: { times: 5, orMs: 500 },
  /** Of those who came before it was known for an overload: as long as a store may take. */
  burstMs: 1_500,
  beside: { times: 2, orMs: 100 },
  /** One in so many may be refused where nobody should be: machines stutter. */
  refusedOneIn: 100,
  /** The cards of a slow provider are no part of it. */
  published: 0.9,
};

/** Whether the phases of a scenario differ from each other by no more than they may. */
export function judgePhases(phases: readonly PhaseFigures[]): Check[] {
  const of = (name: string) => phases.find((each) => each.name === name);
  const [before, beyond, after] = [of('before'), of('beyond'), of('after')];
  if (before && beyond && after) return judgeOverload({ before, beyond, after });
  const [without, beside] = [of('without'), of('beside')];
  return without && beside ? judgeBeside(without, beside) : [];
}

function judgeOverload(
  phases: Readonly<Record<'before' | 'beyond' | 'after', PhaseFigures>>,
): Check[] {
  const { before, beyond, after } = phases;
  const { count, within50Ms } = beyond.refused;
  return [
    {
      what: 'refused beyond the knee (if none, it is higher: give a higher --rate)',
      expected: 'at least 1',
      found: count,
      holds: count > 0,
    },
    {
      what: `of them within ${bounds.refusedMs} ms inside the gateway, %`,
      expected: 'at least 99',
      found: Math.floor(within50Ms * 1_000) / 10,
      holds: within50Ms >= 0.99,
    },
    inNineOfTen({ than: before, is: beyond, bound: bounds.beyond }),
    atMost('p99 of it, ms', beyond.accepted.p99Ms, bounds.burstMs),
    slower('from 5 s after it', { than: before, is: after, bound: bounds.beside }),
    fewRefused('from 5 s after it', after),
  ];
}

function judgeBeside(without: PhaseFigures, beside: PhaseFigures): Check[] {
  const published = beside.published / beside.accepted.count;
  const least = Math.min(1, without.published / without.accepted.count) * bounds.published;
  return [
    slower('beside it', { than: without, is: beside, bound: bounds.beside }),
    fewRefused('beside it', beside),
    {
      what: 'published meanwhile of what was accepted beside it, %',
      expected: `at least ${Math.floor(least * 100)}`,
      found: Math.round(published * 100),
      holds: published >= least,
    },
  ];
}

/**
 * Beyond the knee. It begins as a burst does, which is served for three quarters of a second before
 * anybody is refused: those who came then are a few in a hundred, and wait longer.
 */
function inNineOfTen({ than, is, bound }: Compared): Check {
  const before = than.accepted.p90Ms;
  const what = `p90 of a 202 inside the gateway beyond the knee, ms (${Math.round(before)} before)`;
  return atMost(what, is.accepted.p90Ms, Math.max(before * bound.times, bound.orMs));
}

type Compared = { than: PhaseFigures; is: PhaseFigures; bound: typeof bounds.beside };

function slower(when: string, { than, is, bound }: Compared): Check {
  const before = than.accepted.p99Ms;
  const what = `p99 of a 202 inside the gateway ${when}, ms (${Math.round(before)} before)`;
  return atMost(what, is.accepted.p99Ms, Math.max(before * bound.times, bound.orMs));
}

function fewRefused(when: string, { accepted, refused }: PhaseFigures): Check {
  const all = accepted.count + refused.count;
  return atMost(`refused ${when}`, refused.count, all / bounds.refusedOneIn);
}

type Counters = { accepted: Histogram; refused: Histogram; published: number };

/** How many took at most so many seconds. */
type Histogram = ReadonlyMap<number, number>;

async function readCounters(system: System): Promise<Counters> {
  const [gateways, dispatchers] = await Promise.all([
    readMetrics(system, 'ingest-gateway'),
    readMetrics(system, 'outbox-dispatcher'),
  ]);
  const counter = { name: 'triplock_dispatcher_events_total', labels: { outcome: 'published' } };
  return {
    accepted: readHistogram(gateways, ['2xx']),
    refused: readHistogram(gateways, ['4xx', '5xx']),
    published: dispatchers.reduce((sum, text) => sum + sumSeries(text, counter), 0),
  };
}

/** Of payments, all gateways together. */
export function readHistogram(texts: readonly string[], statuses: readonly string[]): Histogram {
  const buckets = new Map<number, number>();
  const series = /^triplock_gateway_request_seconds_bucket\{(.*)\} (\d+)$/gm;
  for (const [, list, count] of texts.flatMap((text) => [...text.matchAll(series)])) {
    const labels = new Map(list!.split(',').map((each) => each.split('=', 2) as [string, string]));
    const isPayment = labels.get('method') === '"POST"' && labels.get('route') === '"/v1/payments"';
    if (!isPayment || !statuses.some((status) => labels.get('status') === `"${status}"`)) continue;
    const le = Number(labels.get('le')!.slice(1, -1).replace('+Inf', 'Infinity'));
    buckets.set(le, (buckets.get(le) ?? 0) + Number(count));
  }
  return buckets;
}

function figuresOf(before: Counters, after: Counters): Omit<PhaseFigures, 'name' | 'rate'> {
  return {
    accepted: answersBetween(before.accepted, after.accepted),
    refused: answersBetween(before.refused, after.refused),
    published: after.published - before.published,
  };
}

/** What came between two looks; between the bounds of a bucket all times are as likely. */
export function answersBetween(before: Histogram, after: Histogram): Answers {
  const grown = [...after]
    .map(([le, count]) => ({ le, count: count - (before.get(le) ?? 0) }))
    .sort((a, b) => a.le - b.le);
  const count = grown.at(-1)?.count ?? 0;
  if (count === 0) return { count, p90Ms: 0, p99Ms: 0, within50Ms: 1 };
  const quantileMs = (quantile: number) => {
    const at = grown.findIndex((bucket) => bucket.count >= count * quantile);
    const [{ le, count: upTo }, below = { le: 0, count: 0 }] = [grown[at]!, grown[at - 1]];
    const share = (count * quantile - below.count) / (upTo - below.count);
    return 1_000 * (le === Infinity ? below.le : below.le + (le - below.le) * share);
  };
  const within = grown.findLast((bucket) => bucket.le <= bounds.refusedMs / 1_000);
  return {
    count,
    p90Ms: quantileMs(0.9),
    p99Ms: quantileMs(0.99),
    within50Ms: (within?.count ?? 0) / count,
  };
}

function describe({ name, rate, accepted, refused }: PhaseFigures): string {
  const each = ({ count, p99Ms }: Answers) => `${count}, p99 ${Math.round(p99Ms)} ms`;
  return `${name}, ${rate}/s: accepted ${each(accepted)}; refused ${each(refused)}`;
}
