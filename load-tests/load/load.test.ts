import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { openHistory, readHistory, type Terminal } from '@triplock/operator';
import { LauncherError } from '@triplock/launcher';
import { writeConsole } from './history.ts';
import { readRecording } from './k6.ts';
import { loadScenarios } from './scenarios.ts';
import { loadElsewhere } from './run-load.ts';

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
