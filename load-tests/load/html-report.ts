import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { acceptedOf } from './k6.ts';
import type { LoadReport } from './run-load.ts';
import { cpuMicrosOfEach, oldestWaiting, waiting, type Reading, type Stage } from './readings.ts';

/**
 * The report as one page that needs nothing else, the chart library included: verdict, plots over
 * one time axis, the knee as a curve, checks, rig.
 */
export function renderHtml(report: LoadReport): string {
  const { scenario, sends, ok, rig } = report;
  const title = `${scenario}: ${sends}`;
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>${escapeHtml(title)}</title>
<style>${fileOf('uplot/dist/uPlot.min.css')}${style}</style>
<h1>${escapeHtml(title)}</h1>
<p class="${ok ? 'holds' : 'fails'}">${ok ? 'Every check holds.' : 'Not every check holds.'}</p>
${kneeOf(report)}
${drawCharts('over-time', chartsOf(report))}
<h2>What the partners know, and what the system says</h2>
${table(
  ['', 'expected', 'found', ''],
  report.checks.map(({ what, expected, found, holds }) => [
    what,
    expected,
    `${found}`,
    holds ? 'holds' : 'DOES NOT HOLD',
  ]),
)}
<h2>Thresholds</h2>
${table(
  ['metric', 'threshold', ''],
  report.run.thresholds.map(({ metric, expression, holds }) => [
    metric,
    expression,
    holds ? 'holds' : 'DOES NOT HOLD',
  ]),
)}
<h2>From the first request to the 202, retries included${report.run.latencyOf === undefined ? '' : escapeHtml(`, ${report.run.latencyOf}`)}</h2>
${table(
  ['median', 'p95', 'p99', 'max'],
  [(['med', 'p(95)', 'p(99)', 'max'] as const).map((each) => ms(report.run.acceptMs[each]))],
)}
${costTable(report)}
<h2>Rig</h2>
${table(
  ['', ''],
  Object.entries(rig).map(([name, value]) => [name, `${value}`]),
)}
<script>${fileOf('uplot/dist/uPlot.iife.min.js')}</script>
<script>${script}</script>
</html>
`;
}

function chartsOf({ moments, readings }: LoadReport): Chart[] {
  const ofMoments = (pick: (moment: LoadReport['moments'][number]) => number) =>
    moments.map((moment) => [moment.second, pick(moment)] as const);
  const rates = (pick: (reading: Reading) => number) => slopes(readings, pick);
  const lag = (
    from: 'accepted' | 'posted' | 'published',
    to: 'posted' | 'published' | 'delivered',
  ) =>
    readings.map(
      (reading) => [reading.second, waiting(readings[0]!, reading, [from, to])] as const,
    );
  const services = Object.keys(readings.at(-1)?.cpuSeconds ?? {});
  return [
    {
      title: 'Rate of each stage',
      unit: 'a second',
      series: [
        { name: 'requests answered', points: ofMoments((each) => each.requestsPerSecond) },
        // Of a system that is elsewhere k6 alone knows.
        readings.length === 0
          ? { name: 'accepted', points: ofMoments((each) => each.acceptedPerSecond) }
          : { name: 'accepted', points: rates((each) => each.accepted) },
        { name: 'posted', points: rates((each) => each.posted) },
        { name: 'published', points: rates((each) => each.published) },
        { name: 'delivered', points: rates((each) => each.delivered) },
      ],
    },
    {
      title: 'Time of a request',
      unit: 'milliseconds',
      series: [
        { name: 'median', points: ofMoments((each) => each.p50Ms) },
        { name: 'p95', points: ofMoments((each) => each.p95Ms) },
        { name: 'p99', points: ofMoments((each) => each.p99Ms) },
      ],
    },
    {
      title: 'Waiting before each stage',
      unit: 'transactions',
      series:
        readings.length === 0
          ? []
          : [
              { name: 'to be posted', points: lag('accepted', 'posted') },
              { name: 'to be published', points: lag('posted', 'published') },
              { name: 'to be delivered', points: lag('published', 'delivered') },
            ],
    },
    {
      title: 'CPU of each service',
      unit: 'cores',
      series: services.map((name) => ({
        name,
        points: rates((each) => each.cpuSeconds[name] ?? 0),
      })),
    },
    {
      title: 'Memory of each service',
      unit: 'MiB',
      series: services.map((name) => ({
        name,
        points: readings.map(({ second, rssMiB }) => [second, rssMiB[name] ?? 0] as const),
      })),
    },
  ]
    .map((chart) => ({ ...chart, series: chart.series.filter(({ points }) => points.length > 1) }))
    .filter(({ series }) => series.length > 0);
}

/** Growth a second between readings; a process that began anew counts from 0 and makes no dip. */
function slopes(readings: readonly Reading[], pick: (reading: Reading) => number) {
  return readings.slice(1).map((reading, n) => {
    const before = readings[n]!;
    const growth = Math.max(0, pick(reading) - pick(before));
    return [reading.second, growth / Math.max(0.1, reading.second - before.second)] as const;
  });
}

const stages: readonly (readonly [name: string, from: Stage, to: Stage])[] = [
  ['to be posted', 'accepted', 'posted'],
  ['to be published', 'posted', 'published'],
  ['to be delivered', 'published', 'delivered'],
];

/** The knee: what it means, as a curve over the rate, and every step. */
function kneeOf({ knee, readings }: LoadReport): string {
  if (knee === undefined) return '';
  const steps = knee.steps.toSorted((one, other) => one.rate - other.rate);
  const oldest = (step: KneeStep, from: Stage, to: Stage) =>
    oldestWaiting(readings, [from, to], step.seconds);
  const over = (pick: (step: KneeStep) => number) =>
    steps.map((step) => [step.rate, pick(step)] as const);
  const charts: Chart[] = [
    {
      title: 'p99 to the 202, by rate',
      unit: 'milliseconds',
      axis: 'payments a second',
      series: [{ name: 'p99', points: over(({ p99Ms }) => p99Ms) }],
    },
    {
      title: 'Age of the oldest waiting, by rate',
      unit: 'seconds',
      axis: 'payments a second',
      series: stages.map(([name, from, to]) => {
        return { name, points: over((step) => oldest(step, from, to)) };
      }),
    },
  ];
  const rows = knee.steps.map((step) => [
    `${step.rate}/s`,
    `${step.acceptedPerSecond.toFixed(0)}/s`,
    ms(step.p99Ms),
    ...stages.map(([, from, to]) => `${oldest(step, from, to).toFixed(1)} s`),
    step.holds ? 'holds' : step.missed.join(', '),
  ]);
  const heads = ['asked', 'accepted', 'p99', ...stages.map(([name]) => `oldest ${name}`), ''];
  return `<h2>${knee.rate > 0 ? `The knee is at ${knee.rate}/s` : 'No rate held'}</h2>
<p>${escapeHtml(meaningOf(knee))}</p>
${drawCharts('by-rate', charts)}
${table(heads, rows)}`;
}

type KneeStep = NonNullable<LoadReport['knee']>['steps'][number];

/** What the curve says, in words. */
export function meaningOf({ rate, steps }: NonNullable<LoadReport['knee']>): string {
  const held = steps.findLast((step) => step.rate === rate && step.holds);
  const broke = steps
    .filter((step) => step.rate > rate && !step.holds)
    .sort((one, other) => one.rate - other.rate)[0];
  if (held === undefined) return 'Not even the first rate held.';
  const before = `Up to ${rate} a second answers come within ${ms(held.p99Ms)} for 99 of 100`;
  if (broke === undefined) return `${before}, and no rate that was tried was too much.`;
  return (
    `${before}; at ${broke.rate} a second it is ${ms(broke.p99Ms)}. From the knee on more comes in ` +
    `than goes out, so what waits grows for as long as the load lasts: where a line below bends ` +
    `upwards first is the stage that is full.`
  );
}

function costTable({ readings, run }: LoadReport): string {
  const costs = Object.entries(cpuMicrosOfEach(readings, acceptedOf(run)));
  if (costs.length === 0) return '';
  const memory = readings.at(-1)!.rssMiB;
  const rows = costs.map(([name, micros]) => {
    return [name, `${micros.toFixed(0)} µs`, `${memory[name]?.toFixed(0) ?? ''} MiB`];
  });
  const heads = ['service', 'CPU for each accepted', 'memory at the end'];
  return `<h2>What it took</h2>${table(heads, rows)}`;
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (tag: string, row: readonly string[]) =>
    `<tr>${row.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`;
  return `<table>${cells('th', heads)}${rows.map((row) => cells('td', row)).join('')}</table>`;
}

function ms(value: number): string {
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

const style = `
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
figure { margin: 1.5rem 0 } figcaption { font-weight: 600 }
.u-legend { text-align: left; font-size: 12px }
table { border-collapse: collapse } td, th { text-align: left; padding: .15rem 1.2rem .15rem 0; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent) }
.holds { color: #007a53 } .fails { color: #c0392b; font-weight: 600 }
`;

/** Lines in one frame, over time where no other axis is named. */
export type Chart = {
  title: string;
  unit: string;
  axis?: string;
  series: readonly { name: string; points: readonly (readonly [at: number, value: number])[] }[];
};

/** Frames one below the other, which share their axis and where the pointer is. */
function drawCharts(group: string, charts: readonly Chart[]): string {
  const all = charts.flatMap(({ series }) => series.flatMap(({ points }) => points));
  const end = Math.max(1, ...all.map(([at]) => at));
  return charts
    .map((chart) => {
      const data = JSON.stringify({ ...chart, group, end }).replaceAll('<', '\\u003c');
      return (
        `<figure><figcaption>${escapeHtml(`${chart.title}, ${chart.unit}`)}</figcaption>` +
        `<script type="application/json" class="chart">${data}</script></figure>`
      );
    })
    .join('\n');
}

/** A file of a package, to be put into the page. */
function fileOf(name: string): string {
  return readFileSync(createRequire(import.meta.url).resolve(name), 'utf8');
}

/** Told apart by people who do not tell red from green (the palette of Okabe and Ito). */
const colours = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#8c8c8c'];

/** In the page: series have times of their own, which uPlot joins; a gap is no measurement. */
const script = `
const colours = ${JSON.stringify(colours)};
const ink = getComputedStyle(document.body).color;
const axis = { stroke: ink, grid: { stroke: ink, width: 0.15 }, ticks: { stroke: ink, width: 0.5 } };
for (const element of document.querySelectorAll('script.chart')) {
  const { series, group, end, axis: over = 'seconds' } = JSON.parse(element.textContent);
  const figure = element.parentElement;
  const data = uPlot.join(series.map(({ points }) => [points.map(([at]) => at), points.map(([, value]) => value)]));
  const plot = new uPlot({
    width: figure.clientWidth,
    height: 260,
    padding: [12, 24, 0, 8],
    cursor: { sync: { key: group } },
    scales: {
      x: { time: false, range: [0, end] },
      y: { range: (_, least, most) => uPlot.rangeNum(0, most > 0 ? most : 1, 0.1, true) },
    },
    axes: [
      { ...axis, label: over },
      { ...axis, size: 72 },
    ],
    series: [
      { label: over },
      ...series.map(({ name }, n) => ({ label: name, stroke: colours[n % colours.length], width: 1.5, spanGaps: true, points: { show: group === 'by-rate' } })),
    ],
  }, data, figure);
  addEventListener('resize', () => plot.setSize({ width: figure.clientWidth, height: 260 }));
}
`;

/** Text as HTML shows it. */
function escapeHtml(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text.replace(/[&<>"]/g, (each) => names[each]!);
}
