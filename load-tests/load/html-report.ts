import { acceptedOf } from './k6.ts';
import type { LoadReport } from './run-load.ts';
import { cpuMicrosOfEach, waiting, type Reading } from './readings.ts';

/** The report as one page that needs nothing else: verdict, plots over time, checks, rig. */
export function renderHtml(report: LoadReport): string {
  const { scenario, rate, seconds, ok, rig } = report;
  const title = `${scenario}: ${rate}/s for ${seconds} s`;
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>${escapeHtml(title)}</title>
<style>${style}</style>
<h1>${escapeHtml(title)}</h1>
<p class="${ok ? 'holds' : 'fails'}">${ok ? 'Every check holds.' : 'Not every check holds.'}</p>
${chartsOf(report).map(drawChart).join('\n')}
${report.knee === undefined ? '' : kneeTable(report.knee)}
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
<h2>From the first request to the 202, retries included</h2>
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
        { name: 'accepted', points: ofMoments((each) => each.acceptedPerSecond) },
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
  ].filter(({ series }) => series.some(({ points }) => points.length > 1));
}

/** Growth a second between readings; a process that began anew counts from 0 and makes no dip. */
function slopes(readings: readonly Reading[], pick: (reading: Reading) => number) {
  return readings.slice(1).map((reading, n) => {
    const before = readings[n]!;
    const growth = Math.max(0, pick(reading) - pick(before));
    return [reading.second, growth / Math.max(0.1, reading.second - before.second)] as const;
  });
}

function kneeTable({ rate, steps }: NonNullable<LoadReport['knee']>): string {
  const rows = steps.map((step) => [
    `${step.rate}/s`,
    `${step.acceptedPerSecond.toFixed(0)}/s`,
    ms(step.p99Ms),
    step.holds ? 'holds' : step.missed.join(', '),
  ]);
  return `<h2>The knee is at ${rate}/s</h2>${table(['asked', 'accepted', 'p99', ''], rows)}`;
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
svg { width: 100%; height: auto } svg text { font-size: 11px; fill: currentColor; text-anchor: middle }
svg .value { text-anchor: end } svg .grid { stroke: currentColor; opacity: .15 }
polyline { fill: none; stroke-width: 1.6 }
.legend span { margin-right: 1.2rem } .legend i { display: inline-block; width: .8rem; height: .2rem; margin-right: .4rem; vertical-align: middle }
table { border-collapse: collapse } td, th { text-align: left; padding: .15rem 1.2rem .15rem 0; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent) }
.holds { color: #007a53 } .fails { color: #c0392b; font-weight: 600 }
`;

/** Lines over time in one frame. */
export type Chart = {
  title: string;
  unit: string;
  series: readonly {
    name: string;
    points: readonly (readonly [second: number, value: number])[];
  }[];
};

const size = { width: 720, height: 240, left: 64, right: 12, top: 12, bottom: 28 };
const ticks = 4;
/** Told apart by people who do not tell red from green (the palette of Okabe and Ito). */
const colours = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#8c8c8c'];

/** Draws it as an SVG with its legend, which needs no script and no other file. */
function drawChart({ title, unit, series }: Chart): string {
  const drawn = series.filter(({ points }) => points.length > 0);
  const all = drawn.flatMap(({ points }) => points);
  const end = Math.max(1, ...all.map(([second]) => second));
  const top = roundUp(Math.max(...all.map(([, value]) => value), 0));
  const { width, height, left, right, bottom } = size;
  const x = (second: number) => left + (second / end) * (width - left - right);
  const y = (value: number) => height - bottom - (value / top) * (height - size.top - bottom);
  const at = (value: number) => value.toFixed(1);
  const steps = Array.from({ length: ticks + 1 }, (_, n) => n / ticks);
  const rows = steps.map(
    (part) =>
      `<line class="grid" x1="${left}" x2="${width - right}" y1="${at(y(part * top))}" y2="${at(y(part * top))}"/>` +
      `<text class="value" x="${left - 6}" y="${at(y(part * top) + 4)}">${short(part * top)}</text>`,
  );
  const columns = steps.map(
    (part) => `<text x="${at(x(part * end))}" y="${height - 8}">${Math.round(part * end)} s</text>`,
  );
  const lines = drawn.map(({ points }, n) => {
    const path = points.map(([second, value]) => `${at(x(second))},${at(y(value))}`).join(' ');
    return `<polyline stroke="${colours[n % colours.length]}" points="${path}"/>`;
  });
  const legend = drawn.map(
    ({ name }, n) =>
      `<span><i style="background:${colours[n % colours.length]}"></i>${escapeHtml(name)}</span>`,
  );
  return [
    `<figure><figcaption>${escapeHtml(title)}, ${escapeHtml(unit)}</figcaption>`,
    `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeHtml(title)}">`,
    ...rows,
    ...columns,
    ...lines,
    `</svg><p class="legend">${legend.join('')}</p></figure>`,
  ].join('\n');
}

/** Text as HTML shows it. */
function escapeHtml(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text.replace(/[&<>"]/g, (each) => names[each]!);
}

/** The next 1, 2 or 5 with zeros behind it. */
function roundUp(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value)!;
}

function short(value: number): string {
  return value >= 10_000 ? `${value / 1_000}k` : `${Math.round(value * 100) / 100}`;
}
