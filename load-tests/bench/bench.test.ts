import assert from 'node:assert/strict';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { parseIdempotencyKey, parseStrictJson, validatePaymentRequest } from '@triplock/contracts';
import { changeOf } from './comparisons.ts';
import { countsBetween, type CountReading } from './counts.ts';
import { bodyOf, keyOf, openConnections, requestOf } from './load-generator.ts';
import {
  cpuBetween,
  measuredServices,
  readBenchOptions,
  readSample,
  spread,
  type Progress,
} from './measurements.ts';
import { listStatements } from './plans.ts';
import { windowOf, type Run, type StageRun } from './runs.ts';
import type { RateRun, Repetition } from './schedule.ts';
import { markdownOf, renderTables, tablesOf, type BenchReport } from './sheet.ts';
import { newRun } from '../systems.ts';

test('what is not given has a default', () => {
  assert.deepEqual(readBenchOptions({}), { seconds: 10, connections: 64, repeat: 3 });
  assert.deepEqual(readBenchOptions({ repeat: '1', connections: '8' }), {
    seconds: 10,
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
  const { cpuMicros, rssBytes, count } = readSample([metrics(1.5, 1_000), metrics(0.25, 500)]);
  assert.deepEqual({ cpuMicros, rssBytes }, { cpuMicros: 1_750_000, rssBytes: 1_500 });
  assert.equal(count({ name: 'process_cpu_user_seconds_total' }), 1_800);
});

test('a service that reports nothing of its CPU is an error and not a cost of nothing', () => {
  assert.throws(() => readSample(['up 1']), /reports nothing/);
  assert.throws(() => readSample([]), /reports nothing/);
});

test('the gateway takes every request, and all of them are equally long', () => {
  // One run in fifty had numbers of cards while its name had digits.
  assert.match(newRun(), /^[a-z]+$/);
  const numbers = Array.from({ length: 200 }, (_, n) => n * 497_487);
  const bodies = numbers.map((number) => bodyOf({ run: newRun(), number }));
  assert.equal(new Set(bodies.map((body) => body.length)).size, 1);
  for (const body of bodies) {
    assert.match(body, /^[\x20-\x7e]*$/);
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

/** A server that answers what it is told to, a chunk each. */
async function aServer(t: TestContext, answers: readonly (readonly string[])[]): Promise<string> {
  let asked = 0;
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => {
      const chunks = answers[asked++];
      for (const chunk of chunks ?? []) socket.write(chunk);
      if (chunks === undefined) socket.destroy();
      else if (chunks.some((chunk) => /^connection: close/m.test(chunk))) socket.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('the generator reads an answer to its end, and connects again after a last one', async (t) => {
  const head = 'HTTP/1.1 202 Accepted\r\ncontent-length: 4\r\n';
  const target = await aServer(t, [
    [`${head}\r\nbo`, 'dy'],
    [`${head}connection: close\r\n\r\nbody`],
    ['HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n'],
  ]);
  const [connection] = await openConnections({ targets: [target], connections: 1 });
  const order = { apiKeys: ['one', 'other'], run: '0123456789ab' };
  const statuses: string[] = [];
  for (let n = 0; n < 4; n += 1) statuses.push(await connection!.send(requestOf(order, n)));
  connection!.close();
  assert.deepEqual(statuses, ['202', '202', '503', 'error']);
});

test('payments are asked for by all partners in turn', () => {
  const order = { apiKeys: ['one', 'other'], run: '0123456789ab' };
  const keys = [0, 1, 2].map((n) => /Bearer (\w+)/.exec(requestOf(order, n))![1]);
  assert.deepEqual(keys, ['one', 'other', 'one']);
});

test('the median stands between the two in the middle, and order does not matter', () => {
  assert.deepEqual(spread([9, 1, 5]), { min: 1, median: 5, max: 9 });
  assert.deepEqual(spread([4, 1, 2, 9]), { min: 1, median: 3, max: 9 });
  assert.deepEqual(spread([7]), { min: 7, median: 7, max: 7 });
});

test('what no run knows has no figure, and is no figure of 0', () => {
  assert.equal(spread([null, undefined, NaN]), undefined);
  assert.deepEqual(spread([null, 3]), { min: 3, median: 3, max: 3 });
});

test('a service that was started again in a run is an error and not a cost below nothing', () => {
  assert.deepEqual(cpuBetween({ redis: 10, kafka: 5 }, { redis: 12 }), { redis: 2 });
  assert.throws(() => cpuBetween({ auditor: 10 }, { auditor: 9 }), /auditor was started again/);
});

test('a stage is measured from when it is warm until just before it has nothing left', () => {
  const look = (atMs: number, done: number): Progress => {
    return { atMs, done, cpu: {}, publishCalls: 0 };
  };
  const looks = [look(0, 0), look(1, 10), look(2, 25), look(3, 60), look(4, 90), look(5, 100)];
  const times = (some: readonly Progress[]) => windowOf(some, 100).map(({ atMs }) => atMs);
  assert.deepEqual(times(looks), [2, 4]);
  // One that was done between two looks is measured as a whole.
  assert.deepEqual(times([look(0, 0), look(1, 100)]), [0, 1]);
});

const load = {
  accepted: 1_000,
  others: {},
  tookMs: 500,
  latencyMs: { p50: 2, p99: 9, max: 20 },
  cpuMicros: 20_000,
};
const micros = (each: number) =>
  Object.fromEntries([...measuredServices, 'postgres'].map((name) => [name, each]));
/** Of every service, however many there are, and of PostgreSQL. */
const ofAll = (measuredServices.length + 1) * 50;
const run: Run = {
  load,
  cpu: micros(50_000),
  publishedMs: 1_000,
  deliveredMs: 4_000,
  toPublished: { p50: 20, p99: 90 },
  toDelivered: { p50: 40, p99: 180 },
};
const emptyPost = { load, cpuMicros: 50_000 };
const rate: RateRun = { ...run, rate: 200, held: true };
const stage: StageRun = { perSecond: 4_321, of: 1_000, cpu: micros(77) };
const repetition: Repetition = {
  stages: Object.fromEntries(
    measuredServices.map((name) => [name, stage]),
  ) as Required<Repetition>['stages'],
  hotPath: { ...run, emptyPost },
  everything: { ...run, emptyPost },
  replay: { load: { ...load, accepted: 2_000 }, gatewayMicros: 50_000 },
  cards: { ...run, publishedMs: 2_000 },
  idleCores: 0.25,
  rates: [
    { ...rate, rate: 50 },
    { ...rate, held: false },
  ],
  half: { ...rate, rate: 125 },
  cold: { ...rate, load: { ...load, latencyMs: { ...load.latencyMs, p99: 777 } } },
  peaksMiB: { auditor: 123 },
};
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
  settings: { seconds: 15, connections: 64, repeat: 1, replicas: 1 },
  audit: { ok: true, counts: {} as BenchReport['audit']['counts'], drift: [] },
  repetitions: [repetition],
};

const textOf = (some: BenchReport) => renderTables(tablesOf(some)).join('\n');

test('rates are of the accepted payments until the last answer, publish and webhook', () => {
  const text = textOf(report);
  assert.match(text, /^accepted\/s +2000/m);
  assert.match(text, /^published\/s +1000/m);
  assert.match(text, /^delivered\/s +250/m);
});

test('CPU is for each payment, of everybody, and of the hot path by an empty POST', () => {
  const text = textOf(report);
  assert.match(text, /^ledger-worker, µs CPU a payment +50 /m);
  assert.match(text, /^postgres, µs CPU a payment +50 /m);
  assert.match(text, new RegExp(`^all of it, µs CPU a payment +${ofAll} `, 'm'));
  assert.match(text, /^load generator, µs CPU a request +20 /m);
  assert.match(text, /until published, × an empty POST\*\* +3\.0/);
});

test('stages, rates, a cold start, memory and goals have their rows', () => {
  const text = textOf(report);
  assert.match(text, /^auditor +4321 +77 /m);
  assert.match(text, new RegExp(`^200/s, not held +2000 +2 +9 +90 +180 +${ofAll} +20`, 'm'));
  assert.match(text, /^200\/s from a cold start .* 777 /m);
  assert.match(text, /^auditor +123$/m);
  assert.match(text, /^card payments\/s with the simulator, accepted +≥ 1 000 +2000$/m);
  assert.match(text, /^the same, final and published +≥ 1 000 +500$/m);
  assert.match(text, /^replays\/s ÷ fresh payments\/s +≥ 1\.7 +2\.0$/m);
});

test('a system that is somebody else’s has no table of stages, and no figure made up for one', () => {
  const { stages: _, hotPath: __, cold: ___, ...elsewhere } = repetition;
  const text = textOf({ ...report, repetitions: [elsewhere] });
  assert.doesNotMatch(text, /hot path alone|on a backlog|cold start +2/);
  assert.match(text, /^book transfers\/s accepted and published, consumers stopped +≥ 4 000 +–$/m);
});

test('the page gets the same tables as Markdown', () => {
  const text = markdownOf(tablesOf(report));
  assert.match(
    text,
    /^### At saturation\n\n\| figure \| the hot path alone \| everything \| cards \|$/m,
  );
  assert.match(text, /^\| --- \| ---: \| ---: \| ---: \|$/m);
});

const nothingYet: CountReading = {
  redis: { scripts: 0, reads: 0, bytes: 0 },
  kafka: { batches: 0, records: 0, bytes: 0 },
  statements: [],
  walBytes: 0,
};

test('a role’s batches are the calls of the statement that wrote most meanwhile', () => {
  const mark = { role: 'dispatcher', id: 'mark', calls: 10, walBytes: 9_000 };
  const look = { role: 'dispatcher', id: 'look', calls: 90, walBytes: 10 };
  const before = { ...nothingYet, statements: [{ ...look, id: 'old', walBytes: 99_999 }, mark] };
  const after = [{ ...mark, calls: 13, walBytes: 9_500 }, look, before.statements[0]!];
  const { roles } = countsBetween(before, { ...nothingYet, statements: after });
  assert.deepEqual(roles['dispatcher'], { statements: 93, batches: 3, walBytes: 510 });
});

test('a figure moved when all pairs agree by more than they differ among themselves', () => {
  const faster = changeOf([
    [100, 120],
    [200, 242],
    [50, 59],
    [80, 96],
  ]);
  assert.ok(faster.moved && faster.ratio > 1.19 && faster.ratio < 1.21);
  const noise = changeOf([
    [100, 150],
    [100, 70],
    [100, 140],
    [100, 90],
  ]);
  assert.equal(noise.moved, false);
  assert.equal(
    changeOf([
      [100, 100.1],
      [100, 99.9],
    ] as const).moved,
    false,
  );
});

test('every statement of a service on PostgreSQL is among those whose plan is looked at', () => {
  const apart =
    /migrations\/|auditor\/(?:checks|kinds)\/|\/audit\/|ledger-spanner\/|libs\/once\/|node_modules/;
  const files = globSync('{libs,services}/**/*.sql', { cwd: `${import.meta.dirname}/../..` });
  const looked = new Set(listStatements().map(({ file }) => file));
  assert.deepEqual(looked, new Set(files.filter((file) => !apart.test(file))));
});
