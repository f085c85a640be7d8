import assert from 'node:assert/strict';
import { test } from 'node:test';
import { meaningOf, renderHtml } from './html-report.ts';
import type { Knee, Step } from './judge.ts';
import { oldestWaiting, type Reading } from './readings.ts';
import type { LoadReport } from './run-load.ts';

/** A reading a second; what is posted is a second behind, then stands still from the fifth on. */
const readings = Array.from({ length: 10 }, (_, second): Reading => {
  const posted = Math.max(0, Math.min(second, 5) - 1) * 100;
  const counts = { accepted: second * 100, posted, published: posted, delivered: posted };
  return { second, ...counts, cpuSeconds: { auditor: second }, rssMiB: { auditor: 100 } };
});

test('the oldest that waits is as old as the time since the earlier stage had passed it', () => {
  assert.equal(oldestWaiting(readings, ['accepted', 'posted'], [0, 4]), 0);
  assert.equal(oldestWaiting(readings, ['accepted', 'posted'], [5, 9]), 4);
  assert.equal(oldestWaiting(readings, ['posted', 'published'], [0, 9]), 0);
  assert.equal(oldestWaiting([], ['accepted', 'posted'], [0, 9]), 0);
});

const step = (rate: number, holds: boolean, p99Ms: number): Step => {
  const missed = holds ? [] : ['accept_ms'];
  return { rate, holds, missed, p99Ms, acceptedPerSecond: rate, seconds: [0, 9] };
};
const knee: Knee = {
  rate: 150,
  steps: [
    step(100, true, 20),
    step(225, false, 1_900),
    step(150, true, 80),
    step(180, false, 1_200),
  ],
};

test('a knee is told by the highest rate that held and the lowest that did not', () => {
  assert.match(meaningOf(knee), /Up to 150 .* within 80 ms .*; at 180 a second it is 1200 ms/);
  assert.match(meaningOf({ rate: 0, steps: [step(100, false, 900)] }), /Not even the first/);
  assert.match(meaningOf({ rate: 100, steps: [step(100, true, 9)] }), /no rate that was tried/);
});

const moment = { requestsPerSecond: 9, acceptedPerSecond: 9, p50Ms: 1, p95Ms: 2, p99Ms: 3 };
const report = {
  ok: true,
  scenario: 'ramp',
  rate: 150,
  seconds: 15,
  rig: { cpu: 'a </script> one' },
  run: { tallies: {}, thresholds: [], acceptMs: { med: 1, 'p(95)': 2, 'p(99)': 3, max: 4 } },
  checks: [],
  knee,
  readings,
  moments: [2, 4].map((second) => ({ second, ...moment })),
} as unknown as LoadReport;

/** The data of each chart, as the page's script reads it. */
function chartsIn(page: string) {
  type Found = {
    title: string;
    group: string;
    end: number;
    series: { name: string; points: number[][] }[];
  };
  return [...page.matchAll(/class="chart">([^<]*)</g)].map(
    ([, data]) => JSON.parse(data!) as Found,
  );
}

test('what the partners saw and what the services count stand on one time axis', () => {
  const charts = chartsIn(renderHtml(report)).filter(({ group }) => group === 'over-time');
  assert.deepEqual(new Set(charts.map(({ end }) => end)), new Set([9]));
  const rates = charts.find(({ title }) => title === 'Rate of each stage')!;
  assert.deepEqual(rates.series.find(({ name }) => name === 'accepted')!.points[0], [1, 100]);
  assert.deepEqual(
    rates.series.find(({ name }) => name === 'requests answered')!.points[0],
    [2, 9],
  );
});

test('the knee is a curve over the rate, lowest first, with the age of what waits', () => {
  const [latency, oldest] = chartsIn(renderHtml(report)).filter(({ group }) => group === 'by-rate');
  assert.deepEqual(latency!.series[0]!.points, [
    [100, 20],
    [150, 80],
    [180, 1_200],
    [225, 1_900],
  ]);
  assert.deepEqual(oldest!.series[0]!.points.at(-1), [225, 4]);
});

test('the page has the library in it, asks for no other file, and shows text as text', () => {
  const page = renderHtml(report);
  assert.match(page, /var uPlot=/);
  assert.doesNotMatch(page, /<link|src=/);
  assert.match(page, /a &lt;\/script&gt; one/);
});
