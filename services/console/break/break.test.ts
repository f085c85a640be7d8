import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { freePort } from '@triplock/testing';
import { storyLinesMax, watchAgent } from './break-agent.ts';
import { aConsole, type AConsole } from '../test/a-console.ts';
import { routes } from '../routes.ts';

/** As a program acts, by an administrator's token. */
async function acting(console: AConsole, host?: string) {
  const token = await console.anOperator('ada', 'admin');
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    ...(host && { host }),
  };
  return {
    get: (path: string) => console.ask(path, { headers }),
    act: async (name: string, fields: object) => {
      const body = JSON.stringify({ reason: 'trying it out', ...fields });
      const { status, text } = await console.ask(`/api/v1/acts/${name}`, {
        method: 'POST',
        headers,
        body,
      });
      return { status, text, ...(JSON.parse(text) as { outcome?: string; detail?: string }) };
    },
  };
}

test('a console without an agent shows the commands for everything, and starts and kills nothing', async (t) => {
  const { get, act } = await acting(await aConsole(t));
  const { status, text } = await get('/break');
  assert.equal(status, 200);
  for (const command of [
    'docker compose pause ledger-worker',
    'npm run scenario -- worker-killed',
  ]) {
    assert.ok(text.includes(command), command);
  }
  assert.doesNotMatch(text, /<button[^>]*formaction/);
  assert.equal((await get('/break/events')).status, 503);
  const shown = JSON.parse((await get('/api/v1/break')).text) as Record<string, unknown>;
  assert.equal(shown['agent'], 'none');
  const { outcome, detail } = await act('scenarios.run', { scenario: 'retry' });
  assert.deepEqual([outcome, /has no agent/.test(detail!)], ['refused', true]);
});

test('an agent that is away is said to be, and what it was asked for may have been done or not', async (t) => {
  const settings = {
    CONSOLE_AGENT_URL: `http://127.0.0.1:${await freePort()}`,
    CONSOLE_AGENT_TOKEN: 'some',
  };
  const { get, act } = await acting(await aConsole(t, settings));
  const { text } = await get('/break');
  assert.match(text, /does not answer: npm run up starts it again/);
  const forms = [...text.matchAll(/(?:\?form=|name="form" value=")([0-9a-f-]{36})"/g)];
  assert.ok(forms.length > 10, `${forms.length} buttons`);
  assert.equal(new Set(forms.map(([, form]) => form)).size, forms.length, 'each button is an act');
  const { outcome, detail } = await act('processes.kill', { process: 'ledger-worker-1' });
  assert.equal(outcome, 'unknown', detail);
});

test('an act that breaks things names what there is, else nothing is recorded', async (t) => {
  const console = await aConsole(t);
  const { act } = await acting(console);
  for (const [name, fields] of [
    ['scenarios.run', {}],
    ['scenarios.run', { scenario: 'no-such' }],
    ['scenarios.run', { scenario: 'retry', without: 'webhook' }],
    ['load.run', { ratePerSecond: 10, seconds: 10 }],
    ['load.run', { ratePerSecond: 10, seconds: 10, duplicatesPercent: 91 }],
    ['load.run', { ratePerSecond: '1e2', seconds: 10, duplicatesPercent: 9 }],
    ['processes.kill', { process: '../agent' }],
    ['processes.kill', {}],
    ['job.cancel', { job: 'all' }],
  ] as const) {
    const { status, text } = await act(name, fields);
    assert.equal(status, 400, `${name} ${JSON.stringify(fields)}: ${text}`);
  }
  const recorded = await console.store
    .open()
    .query(`SELECT FROM console.acts WHERE role <> 'owner'`);
  assert.equal(recorded.length, 0);
});

/** An agent that tells this of itself, and then what it is given, to whoever listens. */
async function anAgent(t: TestContext, first: object) {
  const { promise: asked, resolve } = Promise.withResolvers<(news: object) => void>();
  const server = createServer((_, response) => {
    const tell = (news: object) => void response.write(`${JSON.stringify(news)}\n`);
    tell(first);
    resolve(tell);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

test('a browser is sent a line of a story alone, to put behind those that it has', async (t) => {
  const job = { id: 1, order: { run: 'load' }, command: 'a command', state: 'running', story: [] };
  const startedAt = new Date().toISOString();
  const { url, asked } = await anAgent(t, { job: { ...job, startedAt } });
  const settings = { CONSOLE_AGENT_URL: url, CONSOLE_AGENT_TOKEN: 'some', CONSOLE_LOGIN: 'none' };
  const { origin } = await aConsole(t, settings);
  const gone = new AbortController();
  const { body } = await fetch(`${origin}/break/events`, { signal: gone.signal });
  const pieces = body!.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
  assert.match((await pieces.next()).value!, /id="story"[^]*a command/);
  (await asked)({ line: { at: startedAt, kind: 'told', text: 'it <held>' } });
  const line = '<span class="told">it &lt;held&gt;</span>';
  const partial = `<hx-partial hx-target="#story" hx-swap="beforeend">${line}</hx-partial>`;
  assert.equal((await pieces.next()).value, `data: ${partial}\n\n`);
  gone.abort();
});

test('the page says how often a process was started again that had ended by itself', async (t) => {
  const processes = [
    { name: 'ledger-worker-1', state: 'running', restarts: 2 },
    { name: 'ledger-worker-2', state: 'gone', restarts: 0 },
  ];
  const { url } = await anAgent(t, { job: null, processes });
  const settings = { CONSOLE_AGENT_URL: url, CONSOLE_AGENT_TOKEN: 'some', CONSOLE_LOGIN: 'none' };
  const { origin } = await aConsole(t, settings);
  const gone = new AbortController();
  const { body } = await fetch(`${origin}/break/events`, { signal: gone.signal });
  const pieces = body!.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
  const { value } = await pieces.next();
  assert.match(value!, /ledger-worker-1<[^]*started again 2 times[^]*ledger-worker-2</);
  assert.equal(value!.match(/started again \w+ times/g)?.length, 1);
  gone.abort();
});

test('of a long story the newest lines are told, each one once until the whole is told anew', async (t) => {
  const line = (nth: number) => ({ at: '', kind: 'told' as const, text: `line ${nth}` });
  const story = Array.from({ length: storyLinesMax + 50 }, (_, nth) => line(nth));
  const { url, asked } = await anAgent(t, { job: { id: 1, story } });
  const gone = new AbortController();
  const news = watchAgent({ url, token: 'some' }, gone.signal);
  const next = async () => (await news.next()).value as { added?: object[]; view?: object };
  const first = await next();
  assert.partialDeepStrictEqual(first, { view: { job: { story: story.slice(-storyLinesMax) } } });
  const tell = await asked;
  for (let nth = 0; nth < storyLinesMax; nth += 1) {
    tell({ line: line(nth) });
    assert.deepEqual(await next(), { added: [line(nth)] });
  }
  tell({ line: line(7_000) });
  const { view } = (await next()) as { view: { job: { story: object[] } } };
  assert.equal(view.job.story.length, storyLinesMax);
  assert.deepEqual(view.job.story.slice(-2), [line(storyLinesMax - 1), line(7_000)]);
  gone.abort();
  assert.equal((await news.next()).done, true);
});

test('in production nothing that breaks things has a path, and no page leads to it', async (t) => {
  const console = await aConsole(t, {
    TRIPLOCK_MODE: 'production',
    CONSOLE_ORIGIN: 'https://console.example',
    ALLOW_INSECURE_DATABASE: 'true',
    ALLOW_INSECURE_KAFKA: 'true',
  });
  const { get, act } = await acting(console, 'console.example');
  const breaking = routes.filter(({ except }) => except === 'production');
  assert.ok(breaking.length >= 15, `${breaking.length} routes`);
  for (const { method, path } of breaking) {
    const name = /^\/api\/v1\/acts\/(.+)$/.exec(path)?.[1];
    if (method === 'POST' && name === undefined) continue;
    const { status } = name === undefined ? await get(path) : await act(name, {});
    assert.equal(status, 404, `${method} ${path}`);
  }
  const { status, text } = await get('/acts');
  assert.equal(status, 200);
  assert.doesNotMatch(text, /\/break/);
});
