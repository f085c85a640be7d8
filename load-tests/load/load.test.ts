import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type AuditReport, openHistory, readHistory, type Terminal } from '@triplock/operator';
import { LauncherError } from '@triplock/launcher';
import { findKnee, judgeLevel, judgeRun, type Evidence, type LevelEvidence } from './judge.ts';
import { cpuMicrosOfEach, type Reading } from './readings.ts';
import { writeConsole } from './history.ts';
import { readRecording } from './k6.ts';
import { loadScenarios } from './scenarios.ts';
import { loadElsewhere } from './run-load.ts';

type Counts = Partial<AuditReport['counts']>;

const noneAtGuards = { atClaims: 0, atLedger: 0, atInbox: 0 };

function auditOf(counts: Counts, amount: number, drift: AuditReport['drift'] = []): AuditReport {
  const accepted = { count: 0, amount };
  return { counts, drift, sums: [{ accepted }] } as unknown as AuditReport;
}

/** Ten accepted payments of 100 each, two duplicates caught, and one key that was never clear. */
function aRun(changed: { tallies?: object; counts?: Counts; amount?: number } = {}): Evidence {
  const tallies = {
    ...{ payments_asked: 11, payments_accepted: 10, payments_accepted_amount: 1_000 },
    ...{ payments_unknown: 1, payments_unknown_amount: 50 },
    ...{ duplicates_sent: 2, duplicates_caught: 2, answers_replayed: 2, requests_unanswered: 1 },
    ...changed.tallies,
  };
  const counts = { accepted: 110, ledger: 110, published: 110, deliveries: 110, ...changed.counts };
  return {
    run: { tallies, thresholds: [] },
    before: {
      audit: auditOf({ accepted: 100, ledger: 100, published: 100, deliveries: 100 }, 7_000),
      guards: noneAtGuards,
    },
    after: {
      audit: auditOf(counts, 7_000 + (changed.amount ?? 1_000)),
      guards: { ...noneAtGuards, atClaims: 2 },
    },
  };
}

const failing = (evidence: Evidence) =>
  judgeRun(evidence)
    .filter(({ holds }) => !holds)
    .map(({ what }) => what);

test('a run of which all sides report the same holds', () => {
  assert.deepEqual(failing(aRun()), []);
});

test('a key that was never clear may have been accepted, with its amount', () => {
  const more = { accepted: 111, ledger: 111, published: 111, deliveries: 111 };
  assert.deepEqual(failing(aRun({ counts: more, amount: 1_050 })), []);
});

const broken: readonly [what: string, check: string, evidence: Evidence][] = [
  ['a lost payment', 'accepted, in the topic', aRun({ counts: { accepted: 109 } })],
  ['a payment that nobody posted', 'posted in the ledger', aRun({ counts: { ledger: 109 } })],
  ['an event too few', 'published', aRun({ counts: { published: 109 } })],
  ['a webhook too many', 'delivered', aRun({ counts: { deliveries: 111 } })],
  ['a cent too much', 'their payments, in minor units', aRun({ amount: 1_051 })],
  [
    'a payment that was cut off',
    'payments asked for that came to an end',
    aRun({ tallies: { payments_asked: 12 } }),
  ],
  [
    'a refund that was cut off',
    'refunds asked for that came to an end',
    aRun({ tallies: { refunds_asked: 1 } }),
  ],
  [
    'a duplicate of which nothing is known',
    'duplicates caught, passed on to the ledger, or unanswered',
    aRun({ tallies: { duplicates_sent: 3 } }),
  ],
  [
    'a replay with other bytes',
    'duplicates answered wrongly',
    aRun({ tallies: { duplicates_altered: 1 } }),
  ],
  [
    'another body that was accepted',
    'other bodies refused',
    aRun({ tallies: { other_bodies_sent: 1 } }),
  ],
  [
    'a replay that no gateway counted',
    'replays and 409s that the gateways counted',
    aRun({ tallies: { answers_replayed: 3 } }),
  ],
];

for (const [what, check, evidence] of broken) {
  test(`${what} is seen`, () => {
    assert.ok(failing(evidence).includes(check));
  });
}

test('drift and a missed threshold are seen', () => {
  const evidence = aRun();
  const drift = [{ check: 'event-unpublished', ids: ['x'] }];
  const found = failing({
    ...evidence,
    run: { ...evidence.run, thresholds: [{ metric: 'm', expression: 'e', holds: false }] },
    after: { ...evidence.after, audit: { ...evidence.after.audit, drift } },
  });
  assert.deepEqual(found, ['thresholds missed', 'checks of the audit that found drift']);
});

/** A reading every two seconds at 10 a second; `behind` is how many wait at a share of the load. */
function aLevel(asked: {
  seconds: number;
  behind?: (share: number) => number;
  rss?: (share: number) => number;
}): Omit<LevelEvidence, 'level'> {
  const { seconds, behind = () => 0, rss = () => 100 } = asked;
  const readings = Array.from({ length: seconds / 2 + 20 }, (_, n): Reading => {
    const second = n * 2;
    const share = second / seconds;
    const accepted = 1_000 + Math.min(second, seconds) * 10;
    const delivered = share > 1 ? accepted : accepted - behind(share);
    const stages = { accepted, posted: delivered, published: delivered, delivered };
    return { second, ...stages, cpuSeconds: {}, rssMiB: { 'ledger-worker': rss(share) } };
  });
  return { rate: 10, seconds, readings };
}

const failingLevel = (evidence: LevelEvidence) =>
  judgeLevel(evidence)
    .filter(({ holds }) => !holds)
    .map(({ what }) => what);

test('what a payment takes of a service is what that used meanwhile, and not since it started', () => {
  const [at] = aLevel({ seconds: 0 }).readings;
  const readings = [10, 11, 12].map((gateway) => ({ ...at!, cpuSeconds: { gateway } }));
  assert.deepEqual(cpuMicrosOfEach(readings, 1_000), { gateway: 2_000 });
});

test('a burst that is worked off before the end holds, one that is not does not', () => {
  const burst = (share: number) => (share > 0.3 && share < 0.8 ? 500 : 5);
  const returning = (behind: (share: number) => number) =>
    failingLevel({ level: 'returns', ...aLevel({ seconds: 60, behind }) });
  assert.deepEqual(returning(burst), []);
  const left = (share: number) => (share > 0.3 ? 500 : 5);
  assert.deepEqual(returning(left), ['waiting at the end of the load']);
});

test('a lag that grows all the time does not stay', () => {
  const growing = (share: number) => share * 200;
  assert.deepEqual(failingLevel({ level: 'stays', ...aLevel({ seconds: 60, behind: growing }) }), [
    'waiting at the end of the load',
  ]);
});

test('memory is judged where a run is long enough to tell a leak from a start', () => {
  const leak = (share: number) => 100 + share * 100;
  assert.deepEqual(failingLevel({ level: 'stays', ...aLevel({ seconds: 1_800, rss: leak }) }), [
    'MiB of ledger-worker at the end',
  ]);
  assert.deepEqual(failingLevel({ level: 'stays', ...aLevel({ seconds: 1_800 }) }), []);
  assert.deepEqual(failingLevel({ level: 'stays', ...aLevel({ seconds: 60, rss: leak }) }), []);
});

test('nothing is judged of a scenario without a level, and of a load of a moment', () => {
  assert.deepEqual(judgeLevel({ level: undefined, ...aLevel({ seconds: 60 }) }), []);
  assert.deepEqual(judgeLevel({ level: 'stays', rate: 10, seconds: 1, readings: [] }), []);
});

/** A system that holds up to a rate, and stutters at its first try of some. */
function upTo(limit: number, stutters: readonly number[] = []) {
  const tried = new Set<number>();
  return async (rate: number) => {
    const again = tried.has(rate);
    tried.add(rate);
    const holds = rate <= limit && (again || !stutters.includes(rate));
    return { rate, holds, missed: holds ? [] : ['accept_ms'], p99Ms: 1, acceptedPerSecond: rate };
  };
}

test('the knee is within a tenth below the rate that is too much', async () => {
  for (const limit of [100, 149, 640, 4_321]) {
    const { rate } = await findKnee(100, upTo(limit));
    assert.ok(rate <= limit && rate >= limit * 0.9 - 1, `${rate} for ${limit}`);
  }
});

test('a knee of a few payments a second is found to the payment', async () => {
  for (let limit = 1; limit < 10; limit += 1) {
    const { rate } = await findKnee(1, upTo(limit));
    assert.equal(rate, limit);
  }
});

test('a rate that stutters once is tried again', async () => {
  const { rate, steps } = await findKnee(100, upTo(400, [150]));
  assert.ok(rate > 360);
  assert.equal(steps.filter((step) => step.rate === 150).length, 2);
});

test('a system that does not hold the first rate has no knee', async () => {
  const { rate, steps } = await findKnee(100, upTo(50));
  assert.equal(rate, 0);
  assert.equal(steps.length, 2);
});

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
  assert.deepEqual(readRecording(text), [
    { second: 2, requestsPerSecond: 20, acceptedPerSecond: 0, p50Ms: 1.5, p95Ms: 2.5, p99Ms: 3.5 },
    { second: 4, requestsPerSecond: 30, acceptedPerSecond: 14, p50Ms: 4, p95Ms: 5, p99Ms: 6 },
  ]);
});

test('a run that was too short for a snapshot has no moments', () => {
  assert.deepEqual(readRecording(''), []);
});

const [scenario] = loadScenarios;
const options = { scenario: scenario!, rate: 1, seconds: 1 };

test('a gateway that nobody answers at is refused before anything is sent', async () => {
  const { signal } = new AbortController();
  const context = { terminal: {} as Terminal, signal, folder: '/nowhere' };
  // Nobody listens there.
  const elsewhere = { gateway: 'http://127.0.0.1:1', token: 'any' };
  await assert.rejects(loadElsewhere(elsewhere, context, options), (error: unknown) => {
    assert.ok(error instanceof LauncherError);
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
