import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseIdempotencyKey, parseStrictJson, validatePaymentRequest } from '@triplock/contracts';
import { figuresOf, renderReport, spread, type BenchReport } from './cost-sheet.ts';
import { bodyOf, keyOf } from './load-generator.ts';
import {
  measuredServices,
  readBenchOptions,
  readSample,
  type EmptyPostRun,
  type Repetition,
} from './measurements.ts';

test('what is not given has a default', () => {
  assert.deepEqual(readBenchOptions({}), { seconds: 20, connections: 64, repeat: 3 });
  assert.deepEqual(readBenchOptions({ repeat: '1', connections: '8' }), {
    seconds: 20,
    connections: 8,
    repeat: 1,
  });
});

test('what is no number, or out of range, is refused by its name', () => {
  for (const option of ['seconds', 'connections', 'repeat']) {
    for (const text of ['0', '-1', '1.5', 'many', '']) {
      assert.throws(() => readBenchOptions({ [option]: text }), {
        name: 'UsageError',
        message: new RegExp(`^--${option} takes`),
      });
    }
  }
});

test('the share of payments that is traced is from 0 to 1', () => {
  for (const [text, tracing] of Object.entries({ '1': 1, '0.01': 0.01, '.5': 0.5, '0': 0 })) {
    assert.equal(readBenchOptions({ tracing: text }).tracing, tracing);
  }
  for (const text of ['', '2', '1.5', '-1', '1%', 'all']) {
    assert.throws(() => readBenchOptions({ tracing: text }), /--tracing takes a share/);
  }
});

const metrics = (cpuSeconds: number, rssBytes: number) => `
# TYPE process_cpu_user_seconds_total counter
process_cpu_user_seconds_total{service="auditor"} 900
process_cpu_seconds_total{service="auditor"} ${cpuSeconds}
process_resident_memory_bytes{service="auditor"} ${rssBytes}
`;

test("a service's replicas are added up", () => {
  assert.deepEqual(readSample([metrics(1.5, 1_000), metrics(0.25, 500)]), {
    cpuMicros: 1_750_000,
    rssBytes: 1_500,
  });
});

test('a service that reports nothing of its CPU is an error and not a cost of nothing', () => {
  assert.throws(() => readSample(['up 1']), /reports nothing/);
  assert.throws(() => readSample([]), /reports nothing/);
});

test('the gateway takes every request, and all of them are equally long', () => {
  const numbers = [0, 7, 99_999_999];
  const bodies = numbers.map((number) => bodyOf({ run: '0123456789ab', number }));
  assert.equal(new Set(bodies.map((body) => body.length)).size, 1);
  for (const body of bodies) {
    const json = parseStrictJson(Buffer.from(body));
    assert.equal(json.outcome, 'value');
    assert.equal(validatePaymentRequest(json.value).outcome, 'valid');
  }
});

test('no key is used twice, in a run or in another one', () => {
  const keys = ['0123456789ab', 'ba9876543210'].flatMap((run) =>
    [1, 2, 12].map((number) => keyOf({ run, number })),
  );
  assert.equal(new Set(keys).size, keys.length);
  for (const key of keys) assert.equal(parseIdempotencyKey([key]).outcome, 'key');
});

test('the median stands between the two in the middle, and order does not matter', () => {
  assert.deepEqual(spread([9, 1, 5]), { min: 1, median: 5, max: 9 });
  assert.deepEqual(spread([4, 1, 2, 9]), { min: 1, median: 3, max: 9 });
  assert.deepEqual(spread([7]), { min: 7, median: 7, max: 7 });
});

test('a payment costs what all services used until all was drained', () => {
  const figures = figuresOf([aRepetition({ accepted: 1_000, serviceMicros: 50_000 })]);
  assert.equal(figures.services.auditor.cpuMicros.median, 50);
  assert.equal(figures.cpuMicros.published.median, 150);
  assert.equal(figures.cpuMicros.together.median, 300);
});

test('the ratio is to the empty POST of just before and just after', () => {
  const fast = aRepetition({ accepted: 1_000, serviceMicros: 50_000, emptyMicros: [40, 60] });
  const slow = aRepetition({ accepted: 1_000, serviceMicros: 90_000, emptyMicros: [60, 120] });
  const { ratio, emptyPost } = figuresOf([fast, slow]);
  assert.deepEqual(ratio.published, { min: 3, median: 3, max: 3 });
  assert.deepEqual(ratio.together, { min: 6, median: 6, max: 6 });
  assert.deepEqual(emptyPost.cpuMicros, { min: 50, median: 70, max: 90 });
});

test('rates are of accepted payments, each by the time that its last step took', () => {
  const { acceptedPerSecond, publishedPerSecond, deliveredPerSecond } = figuresOf([
    aRepetition({ accepted: 1_000, tookMs: 500, publishedMs: 1_000, deliveredMs: 4_000 }),
  ]);
  assert.equal(acceptedPerSecond.median, 2_000);
  assert.equal(publishedPerSecond.median, 1_000);
  assert.equal(deliveredPerSecond.median, 250);
});

test('a run that accepted nothing gives no figures instead of infinite ones', () => {
  assert.throws(() => figuresOf([aRepetition({ accepted: 0 })]), /without an accepted payment/);
  assert.throws(() => figuresOf([]), /without an accepted payment/);
});

test('a replay is set against a fresh payment, and servers are counted beside the services', () => {
  const { replay, parts } = figuresOf([aRepetition({ accepted: 100, serviceMicros: 10_000 })]);
  assert.equal(replay.cpuMicros.median, 50);
  assert.equal(replay.ofFresh.median, 0.5);
  assert.deepEqual(
    Object.values(parts!).map(({ median }) => median),
    [10, 20, 30, 40],
  );
});

test('servers that run elsewhere have no figures', () => {
  const here = aRepetition({});
  const { partMicros: _, ...elsewhere } = here.system;
  assert.equal(figuresOf([here, { ...here, system: elsewhere }]).parts, undefined);
});

const repetitions = [
  aRepetition({ accepted: 1_000, serviceMicros: 50_000, emptyMicros: [40, 60] }),
];
const counts = {} as BenchReport['audit']['counts'];
const report: BenchReport = {
  ok: true,
  rig: {
    cpu: 'A fast one',
    cores: 2,
    memoryGiB: 24,
    os: 'Linux 6',
    node: 'v24.0.0',
    commit: 'abcdef0',
    loadBefore: 0.25,
    at: '2026-01-01T00:00:00.000Z',
  },
  settings: { seconds: 20, connections: 64, repeat: 1, replicas: 1 },
  figures: figuresOf(repetitions),
  audit: { ok: true, counts: { ...counts, accepted: 1_000 }, drift: [] },
  repetitions,
};

test('the sheet has the rig, every service, both ratios and the audit', () => {
  const text = renderReport(report).join('\n');
  assert.match(text, /A fast one, 2 cores, 24 GiB; Linux 6; Node v24\.0\.0; commit abcdef0/);
  assert.match(text, /1 × 20 s over 64 connections; 1 of each service/);
  assert.match(text, /ledger-worker +50\.0 +50\.0 +50\.0 +0\.0 +100 +200/);
  assert.match(text, /until published +3\.00/);
  assert.match(text, /all services +6\.00/);
  assert.match(text, /no drift: all 1000 accepted/);
});

test('drift, and answers that were no 202, are reported', () => {
  const [one] = repetitions;
  const load = { ...one!.system.load, others: { 503: 7 } };
  const text = renderReport({
    ...report,
    ok: false,
    audit: { ...report.audit, ok: false, drift: [{ check: 'delivery-waiting', ids: ['x'] }] },
    repetitions: [{ ...one!, system: { ...one!.system, load } }],
  }).join('\n');
  assert.match(text, /not accepted: 7 × 503/);
  assert.match(text, /drift: delivery-waiting/);
});

/** A repetition of round figures; every service uses the same. */
function aRepetition(figures: {
  accepted?: number;
  tookMs?: number;
  publishedMs?: number;
  deliveredMs?: number;
  /** CPU of each service in the whole run. */
  serviceMicros?: number;
  /** CPU of the empty POST for one request, before and after. */
  emptyMicros?: readonly [number, number];
}): Repetition {
  const { accepted = 100, tookMs = 1_000, serviceMicros = 10_000 } = figures;
  const [before, after] = figures.emptyMicros ?? [50, 50];
  const load = {
    accepted,
    others: {},
    tookMs,
    latencyMs: { p50: 2, p99: 9, max: 20 },
    cpuMicros: 2_000,
  };
  const use = {
    cpuMicros: serviceMicros,
    idleMicros: 0,
    rssBytesPeak: 200 * 1024 * 1024,
    rssBytesEnd: 100 * 1024 * 1024,
  };
  const services = Object.fromEntries(measuredServices.map((name) => [name, use]));
  const empty = (micros: number): EmptyPostRun => ({ load, cpuMicros: micros * accepted });
  const { publishedMs = tookMs, deliveredMs = publishedMs } = figures;
  return {
    before: empty(before),
    system: {
      load,
      services: services as Repetition['system']['services'],
      publishedMs,
      deliveredMs,
      drainedMs: deliveredMs,
      partMicros: { redis: 1_000, kafka: 2_000, postgres: 3_000, pubsub: 4_000 },
      replay: { load: { ...load, accepted: accepted * 2 }, gatewayMicros: serviceMicros },
    },
    after: empty(after),
  };
}
