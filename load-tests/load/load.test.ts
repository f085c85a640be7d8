import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { partnerLimits } from '@triplock/claims';
import { openHistory, readHistory } from '@triplock/inspect';
import { type Terminal, CommandError } from '@triplock/command';
import { writeConsole } from './history.ts';
import { readRecording } from './k6.ts';
import { describeLoad, loadScenarios, type LoadScenario } from './scenarios.ts';
import { loadElsewhere, renderText, type LoadReport } from './run-load.ts';
import { searchKnee, together, type Knee, type Step } from './judge.ts';
import { oldestWaiting, type Reading } from './readings.ts';
import { answersBetween, judgePhases, readHistogram, type PhaseFigures } from './phases.ts';

const aggregates = {
  counter: ['count', 'rate'],
  gauge: ['value'],
  trend: ['med', 'p(95)', 'p(99)'],
};
const lines = (...each: object[]) => each.map((line) => JSON.stringify(line)).join('\n');

test('a snapshot is read by the names that were known when it was taken', () => {
  const text = lines(
    { event: 'param', data: { aggregates } },
    { event: 'metric', data: { time: { type: 'gauge' } } },
    { event: 'start', data: [[10_000]] },
    {
      event: 'metric',
      data: { http_reqs: { type: 'counter' }, http_req_duration: { type: 'trend' } },
    },
    { event: 'cumulative', data: [[9, 9, 9], [9, 9], [12_000]] },
    { event: 'snapshot', data: [[1.5, 2.5, 3.5], [40, 20], [12_000]] },
    { event: 'metric', data: { payments_accepted: { type: 'counter' } } },
    { event: 'snapshot', data: [[4, 5, 6], [60, 30], [28, 14], [14_000]] },
    { event: 'stop', data: [[14_100]] },
  );
  assert.deepEqual(readRecording(text, 10_000), [
    { second: 2, requestsPerSecond: 20, acceptedPerSecond: 0, p50Ms: 1.5, p95Ms: 2.5, p99Ms: 3.5 },
    { second: 4, requestsPerSecond: 30, acceptedPerSecond: 14, p50Ms: 4, p95Ms: 5, p99Ms: 6 },
  ]);
});

test('a run that was too short for a snapshot has no moments', () => {
  assert.deepEqual(readRecording('', 0), []);
});

const [scenario] = loadScenarios;
const options = { scenario: scenario!, rate: 1, seconds: 1 };

test('every scenario stays within what one partner may hold in a day', () => {
  const ratesOfASearchMax = 50;
  for (const { name, rate, seconds, searchesKnee } of loadScenarios) {
    const keys = rate * seconds * (searchesKnee ? ratesOfASearchMax : 1);
    assert.ok(keys < 0.9 * partnerLimits.claimsPerPartner, `${name}: ${keys}`);
  }
});

test('a gateway that nobody answers at is refused before anything is sent', async () => {
  const { signal } = new AbortController();
  const context = { terminal: {} as Terminal, signal, folder: '/nowhere' };
  // Nobody listens there.
  const elsewhere = { gateway: 'http://127.0.0.1:1', token: 'any' };
  await assert.rejects(loadElsewhere(elsewhere, context, options), (error: unknown) => {
    assert.ok(error instanceof CommandError);
    assert.match(error.message, /^nothing answers at http:\/\/127.0.0.1:1: .*give its URL$/);
    return true;
  });
});

test('a gateway that refuses the key is reported before anything is sent', async (t) => {
  const gateway = createServer((request, response) => {
    response.writeHead(request.headers.authorization === 'Bearer wrong' ? 401 : 200).end();
  });
  await once(gateway.listen(0, '127.0.0.1'), 'listening');
  t.after(() => gateway.close());
  const { signal } = new AbortController();
  const context = { terminal: {} as Terminal, signal, folder: '/nowhere' };
  const { port } = gateway.address() as AddressInfo;
  const elsewhere = { gateway: `http://127.0.0.1:${port}`, token: 'wrong' };
  await assert.rejects(loadElsewhere(elsewhere, context, options), /does not know the key/);
});

test('what k6 said on its console and what came to the partners are one history, by their times', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'load-history-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const history = openHistory(join(folder, 'a.jsonl'), 'a load');
  const [began, console] = [Date.now(), join(folder, 'k6-console-1.ndjson')];
  const body = { partner: 'acme', body: '{}' };
  const asked = { what: 'asked', kind: 'payment', method: 'POST', path: '/v1/payments', ...body };
  const lines = [
    { ...asked, n: '2-1', at: began + 1 },
    { ...asked, n: '1-1', at: began + 2 },
    { what: 'answered', n: '2-1', at: began + 5, status: 503, body: 'x', retryAfter: 1 },
    { what: 'unanswered', n: '1-1', at: began + 9, why: 'timeout' },
  ];
  const texts = [...lines.map((line) => JSON.stringify(line)), 'refused: 500', '{"what":"ask'];
  writeFileSync(console, texts.join('\n'));
  const arrived = { ...body, id: 'e', verified: true };
  const webhooks = [5, 6, 20].map((ms) => ({ arrived, at: new Date(began + ms) }));
  await writeConsole(history, { console, webhooks });
  history.close();
  const written = (await readHistory(history.file)).lines.map((each) => {
    return `${each.what} ${'n' in each ? each.n : ''}`.trim();
  });
  const inOrder = ['asked 1', 'asked 2', 'answered 1', 'webhook', 'webhook', 'unanswered 2'];
  assert.deepEqual(written, inOrder);
  assert.equal(webhooks.length, 1, 'what came later stays for the next run');
  assert.equal(readFileSync(join(folder, 'k6.log'), 'utf8'), 'refused: 500\n{"what":"ask\n');
});

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

const moment = { requestsPerSecond: 9, acceptedPerSecond: 9, p50Ms: 1, p95Ms: 2, p99Ms: 3 };
const report = {
  ok: true,
  scenario: 'ramp',
  sends: 'one rate after the other',
  rate: 150,
  seconds: 15,
  rig: { cpu: 'a </script> one' },
  run: { tallies: {}, thresholds: [], acceptMs: { med: 1, 'p(95)': 2, 'p(99)': 3, max: 4 } },
  checks: [],
  knee,
  readings,
  moments: [2, 4].map((second) => ({ second, ...moment })),
} as unknown as LoadReport;

test('a report says what was sent, what became of all of it, and of which part its latencies are', () => {
  const [smoke, ...others] = loadScenarios;
  const words = (of: LoadScenario) =>
    describeLoad({ scenario: of, rate: of.rate, seconds: of.seconds });
  assert.match(words(smoke!), /^twenty payments one by one/);
  for (const other of others) {
    assert.match(words(other), new RegExp(`\\b(${other.seconds}|${2 * other.seconds}) s`));
  }

  const tallies = { payments_asked: 30, payments_accepted: 20, payments_refused: 4 };
  const turned = {
    refunds_asked: 2,
    refunds_turned_away: 1,
    refunds_unknown: 1,
    payments_unknown: 6,
  };
  const run = { ...report.run, tallies: { ...tallies, ...turned }, latencyOf: 'at 150/s' };
  const rig = { gateways: 1 } as LoadReport['rig'];
  const text = renderText({ ...report, rig, run, drainedAfterSeconds: 12 }).join('\n');
  assert.match(text, /ramp: one rate after the other, at 1 gateway$/m);
  assert.match(
    text,
    /^32 asked for: 20 accepted, 4 refused for good, 1 turned away by 429 or 503, 7 without a clear answer$/m,
  );
  assert.match(text, /^to the 202: median 1\.0 ms, p99 3\.0 ms, at 150\/s$/m);
  assert.match(text, /^the knee is at 150\/s$/m);
  const none = { rate: 0, steps: [step(100, false, 900), step(100, false, 950)] };
  assert.match(
    renderText({ ...report, rig, run, knee: none }).join('\n'),
    /^no rate held, not even 100\/s$/m,
  );
});

test('of several runs what is counted and what it cost is all of theirs', () => {
  const one = { ...report.run, tallies: { payments_accepted: 10 }, cpuSeconds: 2, moments: [] };
  const other = { ...one, tallies: { payments_accepted: 30 }, cpuSeconds: 1 };
  const all = together([one, other], one);
  assert.deepEqual([all.tallies['payments_accepted'], all.cpuSeconds], [40, 3]);
  const { cpuSeconds: _, ...uncounted } = other;
  assert.equal(together([one, uncounted], one).cpuSeconds, undefined);
});

test('the rate that a search found accepted is that of the time in which it was sent', async () => {
  const sent = { ...report.run, thresholds: [], besideMs: {}, moments: [] };
  let now = 0;
  const { knee: found } = await searchKnee(20_000, {
    terminal: { note: () => undefined } as unknown as Terminal,
    seconds: 10,
    send: async (rate) => {
      // k6 starts for two seconds, and waits for the last answers for three.
      now += 15;
      return { ...sent, tallies: { payments_accepted: rate * 10 } };
    },
    drain: async () => undefined,
    second: () => now,
  });
  for (const { rate, acceptedPerSecond } of found.steps) assert.equal(acceptedPerSecond, rate);
  assert.deepEqual(found.steps[0]!.seconds, [0, 15]);
});

const of = (status: string, le: string, count: number) =>
  `triplock_gateway_request_seconds_bucket{le="${le}",service="ingest-gateway",method="POST",` +
  `route="/v1/payments",status="${status}"} ${count}`;

test('what gateways measured of a phase is what their buckets grew by', () => {
  const text = (...counts: [number, number, number]) =>
    [of('5xx', '0.05', counts[0]), of('5xx', '0.1', counts[1]), of('5xx', '+Inf', counts[2])]
      .concat(of('2xx', '0.05', 7))
      .join('\n');
  const before = readHistogram([text(10, 10, 10)], ['4xx', '5xx']);
  const after = readHistogram([text(60, 110, 110), text(0, 0, 0)], ['4xx', '5xx']);
  const { count, p90Ms, p99Ms, within50Ms } = answersBetween(before, after);
  const rounded = [p90Ms, p99Ms].map(Math.round);
  assert.deepEqual([count, ...rounded, within50Ms], [100, 90, 99, 0.5]);
  assert.equal(answersBetween(after, after).count, 0);
});

const phase = (name: string, acceptedMs: number, refused: [count: number, within: number]) => {
  const [count, within50Ms] = refused;
  const accepted = { count: 1_000, p90Ms: acceptedMs, p99Ms: acceptedMs, within50Ms: 1 };
  const all = { rate: 100, published: 1_000, accepted };
  return {
    name,
    ...all,
    refused: { count, p90Ms: 1, p99Ms: 1, within50Ms },
  } satisfies PhaseFigures;
};
const broken = (...phases: PhaseFigures[]) =>
  judgePhases(phases)
    .filter(({ holds }) => !holds)
    .map(({ what }) => what.replace(/[,(].*/, '').trim());

test('an overload holds when it was one, refused at once, and is over after it', () => {
  const before = phase('before', 40, [0, 1]);
  const after = phase('after', 60, [5, 1]);
  assert.deepEqual(broken(before, phase('beyond', 400, [900, 0.995]), after), []);
  assert.deepEqual(broken(before, phase('beyond', 501, [900, 0.98]), after), [
    'of them within 50 ms inside the gateway',
    'p90 of a 202 inside the gateway beyond the knee',
  ]);
  const slow = phase('beyond', 400, [900, 1]);
  slow.accepted.p99Ms = 1_501;
  assert.deepEqual(broken(before, slow, after), ['p99 of it']);
  const lasting = broken(before, phase('beyond', 40, [0, 1]), phase('after', 101, [50, 1]));
  assert.deepEqual(lasting, [
    'refused beyond the knee',
    'p99 of a 202 inside the gateway from 5 s after it',
    'refused from 5 s after it',
  ]);
});

test('a slow part holds when the hot path beside it is what it was without', () => {
  const without = phase('without', 40, [0, 1]);
  assert.deepEqual(broken(without, phase('beside', 99, [0, 1])), []);
  const slow = { ...phase('beside', 101, [50, 1]), published: 800 };
  assert.equal(broken(without, slow).length, 3);
});
