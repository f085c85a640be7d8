import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freePort } from '@triplock/testing';
import { aConsole, type AConsole } from './test/a-console.ts';
import { routes } from './routes.ts';

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
  assert.match((await get('/break')).text, /does not answer: npm run up starts it again/);
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
