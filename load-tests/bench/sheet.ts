import { renderTable, style } from '@triplock/command';
import type { Rig } from '../systems.ts';
import {
  besideServices,
  measuredServices,
  pipelineServices,
  roleOf,
  spread,
  type BenchOptions,
  type Consumer,
} from './measurements.ts';
import type { EmptyPostRun, Run, StageRun } from './runs.ts';
import type { RateRun, Repetition, Series } from './schedule.ts';

/** What `--json` prints. */
export type BenchReport = {
  /** The audit found no drift. */
  ok: boolean;
  rig: Rig;
  settings: BenchOptions & { replicas: number };
} & Omit<Series, 'replicas'>;

/** One table of the sheet; every column but the first holds figures. */
export type Table = {
  title: string;
  heads: readonly string[];
  rows: readonly string[][];
  /** A page does without it: it says why a figure moved, which asks whoever measures. */
  isDetail?: true;
};

/** The tables for a terminal. */
export function renderTables(tables: readonly Table[]): string[] {
  return tables.flatMap(({ title, heads, rows }) => [
    style.title(title),
    ...renderTable(
      heads.map((head, n) => (n === 0 ? { head } : { head, align: 'right' as const })),
      rows,
    ),
    '',
  ]);
}

/** The tables as Markdown, but for details. */
export function markdownOf(tables: readonly Table[]): string {
  return tables
    .filter(({ isDetail }) => !isDetail)
    .map(({ title, heads, rows }) => {
      const lines = [heads, heads.map((_, n) => (n === 0 ? '---' : '---:')), ...rows];
      return `### ${title}\n\n${lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')}\n`;
    })
    .join('\n');
}

/** The whole sheet. */
export function tablesOf(report: BenchReport): Table[] {
  const { repetitions } = report;
  return [
    goalsTable(report),
    saturationTable(repetitions),
    ...stageTable(repetitions),
    rateTable(repetitions),
    ...batchTable(repetitions),
    memoryTable(repetitions),
  ];
}

type Measured = Run & { emptyPost?: EmptyPostRun };

/** The loads that take all they can get, side by side. */
function saturationTable(repetitions: readonly Repetition[]): Table {
  const loads: readonly (readonly [head: string, runs: readonly Measured[]])[] = [
    ['the hot path alone', repetitions.flatMap(({ hotPath }) => hotPath ?? [])],
    ['everything', repetitions.map(({ everything }) => everything)],
    ['cards', repetitions.map(({ cards }) => cards)],
  ];
  const measured = loads.filter(([, runs]) => runs.length > 0);
  const row = (name: string, figure: (run: Measured) => number | null | undefined, digits = 0) => [
    name,
    ...measured.map(([, runs]) => cell(runs.map(figure), digits)),
  ];
  const cpuRows = [...measuredServices, ...besideServices]
    .filter((name) => measured.some(([, runs]) => runs.some(({ cpu }) => cpu[name] !== undefined)))
    .map((name) => {
      const ofIt = (run: Measured) => (run.cpu[name] === undefined ? null : microsOf(run, [name]));
      return row(`${name}, µs CPU a payment`, ofIt);
    });
  const rows = [
    row('accepted/s', acceptedPerSecond),
    row('published/s', (run) => perSecond(run, run.publishedMs)),
    row('delivered/s', (run) => perSecond(run, run.deliveredMs)),
    row('202 after, ms, p50', ({ load }) => load.latencyMs.p50, 1),
    row('202 after, ms, p99', ({ load }) => load.latencyMs.p99, 1),
    row('published after, ms, p50', (run) => run.toPublished?.p50),
    row('published after, ms, p99', (run) => run.toPublished?.p99),
    row('delivered after, ms, p50', (run) => run.toDelivered?.p50),
    row('delivered after, ms, p99', (run) => run.toDelivered?.p99),
    ...cpuRows,
    row('all of it, µs CPU a payment', (run) => microsOf(run)),
    row('load generator, µs CPU a request', ({ load }) => load.cpuMicros / load.accepted),
    row('empty POST beside the same load, µs CPU', ({ emptyPost }) => emptyPostMicros(emptyPost)),
    row('**until published, × an empty POST**', ratio, 1),
  ];
  const heads = ['figure', ...measured.map(([head]) => head)];
  return { title: 'At saturation', heads, rows: rows.filter(isKnown) };
}

const unknown = '–';
const isKnown = (row: readonly string[]) => row.slice(1).some((each) => each !== unknown);

/** Median, and what it was between. */
function cell(values: readonly (number | null | undefined)[], digits = 0): string {
  const found = spread(values);
  if (found === undefined) return unknown;
  const { min, median, max } = found;
  const between = min === max ? '' : ` (${min.toFixed(digits)}–${max.toFixed(digits)})`;
  return median.toFixed(digits) + between;
}

function stageTable(repetitions: readonly Repetition[]): Table[] {
  const stages = repetitions.flatMap(({ stages: each }) => each ?? []);
  if (stages.length === 0) return [];
  const besideOfStages = besideServices.filter((name) => name !== 'stripe-simulator');
  const rows = measuredServices.map((name) => {
    const over = (figure: (run: StageRun) => number | undefined) =>
      cell(stages.map((each) => figure(each[name])));
    const beside = besideOfStages.map((each) => over(({ cpu }) => cpu[each]));
    const role = roleOf(name);
    const statements = cell(
      stages.map(({ [name]: { counts, of } }) => (counts?.roles[role]?.statements ?? NaN) / of),
      2,
    );
    return [
      name,
      over((run) => run.perSecond),
      over(({ cpu }) => cpu[name]),
      ...beside,
      statements,
    ];
  });
  return [
    {
      title: 'Each stage on a backlog, the later ones stopped; µs CPU a payment',
      heads: ['stage', 'rate/s', 'its own', ...besideOfStages, 'statements a payment'],
      rows,
    },
  ];
}

function rateTable(repetitions: readonly Repetition[]): Table {
  const byRate = Map.groupBy(
    repetitions.flatMap((each) => each.rates),
    ({ rate }) => `${rate}/s`,
  );
  const rows = [...byRate].map(([name, runs]) => rateRow(name, runs));
  const halves = repetitions.map(({ half }) => half);
  const cold = repetitions.flatMap((each) => each.cold ?? []);
  rows.push(rateRow(`half of the most, ${cell(halves.map(({ rate }) => rate))}/s`, halves));
  if (cold.length > 0) rows.push(rateRow(`${cold[0]!.rate}/s from a cold start`, cold));
  const heads = ['asked', 'accepted/s', '202 p50', '202 p99', 'published p99', 'delivered p99'];
  const title = 'At a rate, open loop, ms from when a payment was due; µs CPU a payment';
  return { title, heads: [...heads, 'all of it', 'load generator'], rows };
}

function rateRow(name: string, runs: readonly RateRun[]): string[] {
  const over = (figure: (run: RateRun) => number | null | undefined, digits = 0) =>
    cell(runs.map(figure), digits);
  return [
    runs.every(({ held }) => held) ? name : `${name}, not held`,
    over(acceptedPerSecond),
    over(({ load }) => load.latencyMs.p50),
    over(({ load }) => load.latencyMs.p99),
    over((run) => run.toPublished?.p99),
    over((run) => run.toDelivered?.p99),
    over((run) => microsOf(run)),
    over(({ load }) => load.cpuMicros / load.accepted),
  ];
}

/** How many payments share what is paid for by the batch. */
function batchTable(repetitions: readonly Repetition[]): Table[] {
  const runs = repetitions.flatMap(({ hotPath, everything, rates }) => [
    { name: 'hot path', run: hotPath },
    { name: 'everything', run: everything },
    ...rates.map((run) => ({ name: `${run.rate}/s`, run })),
  ]);
  const known = runs.flatMap(({ name, run }) => (run?.counts ? [{ name, run }] : []));
  if (known.length === 0) return [];
  const rows = [...Map.groupBy(known, ({ name }) => name)].map(([name, each]) => {
    const over = (divisor: (counts: NonNullable<Run['counts']>) => number | undefined) =>
      cell(
        each.map(({ run }) => run.load.accepted / (divisor(run.counts!) ?? NaN)),
        1,
      );
    const roles = measuredServices
      .slice(1)
      .map((service) => over(({ roles: counted }) => counted[roleOf(service)]?.batches));
    const wal = cell(each.map(({ run }) => run.counts!.walBytes / run.load.accepted));
    return [
      name,
      over(({ redis }) => redis.reads),
      over(({ kafka }) => kafka.batches),
      ...roles,
      wal,
    ];
  });
  const batches = measuredServices.slice(1).map((name) => `batch, ${name}`);
  return [
    {
      title:
        'Payments for each read by Redis, batch in the topic, and batch of a service; WAL bytes a payment',
      heads: ['load', 'read by Redis', 'batch in the topic', ...batches, 'WAL bytes'],
      rows,
      isDetail: true,
    },
  ];
}

function memoryTable(repetitions: readonly Repetition[]): Table {
  const rows = measuredServices.map((name) => [
    name,
    cell(repetitions.map(({ peaksMiB }) => peaksMiB[name])),
  ]);
  return { title: 'Memory', heads: ['service', 'MiB at its peak'], rows };
}

/** The goals that the bench itself can tell of; docs/costs.md has those of other commands. */
function goalsTable({ repetitions }: BenchReport): Table {
  const over = (figure: (each: Repetition) => number | null | undefined, digits = 0) =>
    cell(repetitions.map(figure), digits);
  const at = (rate: number) => (each: Repetition) => each.rates.find((run) => run.rate === rate);
  const rows = [
    [
      'book transfers/s accepted and published, consumers stopped',
      '≥ 4 000',
      over(({ hotPath }) => hotPath && perSecond(hotPath, hotPath.publishedMs)),
    ],
    [
      'book transfers/s with every webhook delivered',
      '≥ 1 800',
      over(({ everything }) => perSecond(everything, everything.deliveredMs)),
    ],
    [
      'card payments/s with the simulator, accepted',
      '≥ 1 000',
      over(({ cards }) => acceptedPerSecond(cards)),
    ],
    [
      'the same, final and published',
      '≥ 1 000',
      over(({ cards }) => perSecond(cards, cards.publishedMs)),
    ],
    [
      'Node CPU until published ÷ empty POST, hot path',
      '≤ 3.0',
      over(({ hotPath }) => hotPath && ratio(hotPath), 1),
    ],
    [
      'CPU of everything a payment, at 200/s ÷ at saturation',
      '≤ 2',
      over((each) => microsOf(at(200)(each)) / microsOf(each.everything), 1),
    ],
    ['200/s open loop, 202 p99, ms', '≤ 30', over((each) => at(200)(each)?.load.latencyMs.p99)],
    ['the same from a cold start, ms', '≤ 100', over(({ cold }) => cold?.load.latencyMs.p99)],
    ['at half of the most, 202 p99, ms', '≤ 15', over(({ half }) => half.load.latencyMs.p99)],
    ['the same, published p99, ms', '≤ 300', over(({ half }) => half.toPublished?.p99)],
    ['idle, everything, cores', '≤ 0.04', over(({ idleCores }) => idleCores, 3)],
    [
      'replays/s ÷ fresh payments/s',
      '≥ 1.7',
      over(
        ({ replay, everything }) => acceptedPerSecond(replay) / acceptedPerSecond(everything),
        1,
      ),
    ],
    [
      'memory of a service at its peak, MiB',
      '≤ 200',
      over(({ peaksMiB }) => Math.max(...Object.values(peaksMiB))),
    ],
  ];
  return { title: 'Goals', heads: ['figure', 'goal', 'measured'], rows };
}

function acceptedPerSecond({ load }: Pick<Run, 'load'>): number {
  return (load.accepted * 1_000) / load.tookMs;
}

function perSecond({ load }: Pick<Run, 'load'>, ms: number | null): number | undefined {
  return ms === null ? undefined : (load.accepted * 1_000) / ms;
}

/** CPU of some, or of all, for each accepted payment; NaN of no run. */
function microsOf(run: Pick<Run, 'cpu' | 'load'> | undefined, of?: readonly Consumer[]): number {
  if (run === undefined) return NaN;
  const names = of ?? (Object.keys(run.cpu) as Consumer[]);
  return names.reduce((sum, name) => sum + (run.cpu[name] ?? 0), 0) / run.load.accepted;
}

function emptyPostMicros(run: EmptyPostRun | undefined): number {
  return run === undefined ? NaN : run.cpuMicros / run.load.accepted;
}

/** What gateway, worker and dispatcher take for a payment, by what an empty POST does. */
export function ratio(run: Measured): number {
  return microsOf(run, pipelineServices) / emptyPostMicros(run.emptyPost);
}
