import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { quickLimits } from '@triplock/runtime';
import { eventually, freePort, holdsUpNobody } from '@triplock/testing';
import { bringUpServices } from '../bring-up.ts';
import { killProcess } from '../faults.ts';
import { homeAt } from '../home.ts';
import type { Service } from '../service-table.ts';
import { readState } from '../session.ts';
import { systemStatus } from '../status.ts';
import { takeDown } from '../take-down.ts';
import { givenBrokers, processesOf, testHome } from '../test/home.ts';
import { openJobs, type Order } from './jobs.ts';
import { serveAgent } from './serve.ts';

before(async () => Object.assign(process.env, await givenBrokers()));

const name = 'ingest-gateway-1';

/** What a test broke in it, or took down, the next one that has it up starts again. */
const home = testHome({ after });

test('who does not show the token once, or asks by another name or page, is told and breaks nothing', async () => {
  const { ask, token } = await anAgent();
  const right = { authorization: `Bearer ${token}` };
  const wrong: Required<Asking>['headers'][] = [
    {},
    { authorization: 'Bearer wrong' },
    { authorization: token },
    { authorization: [right.authorization, right.authorization] },
    { ...right, host: 'rebound.example' },
    { ...right, origin: 'http://elsewhere.example' },
  ];
  for (const headers of wrong) {
    for (const [method, path] of [
      ['GET', '/state'],
      ['GET', '/events'],
      ['GET', '/scenarios'],
      ['POST', `/processes/${name}/kill`],
    ] as const) {
      const { status, text } = await ask(method, path, { headers });
      assert.ok(status === 403 || status === 400, `${path} ${JSON.stringify(headers)}: ${text}`);
      assert.doesNotMatch(text, /gateway|retry/);
    }
  }
  assert.equal((await ask('GET', '/healthz', { headers: {} })).status, 200);
  assert.equal((await ask('GET', '/healthz', { headers: { host: 'a.example' } })).status, 403);
  assert.equal(await stateOf(), 'ready');
  assert.equal((await ask('GET', '/state')).status, 200);
});

test('what is not in its vocabulary is refused, and nothing is run', async () => {
  const { ask } = await anAgent();
  for (const path of [
    '/processes/postgres/kill',
    '/processes/agent/kill',
    '/processes/console/pause',
    '/processes/ingest-gateway/kill',
    `/processes/${name}/reap`,
    `/processes/${name}/toString`,
    `/processes/${name}/kill/`,
    '/jobs/1/cancel/',
    '/jobs/x/cancel',
    '/run',
  ]) {
    assert.equal((await ask('POST', path)).status, 404, path);
  }
  const load = { run: 'load', ratePerSecond: 10, seconds: 10, duplicatesPercent: 10 };
  for (const order of [
    '',
    'no JSON',
    '[]',
    'null',
    { run: 'scenario' },
    { run: 'scenario', scenario: 'no-such' },
    { run: 'scenario', scenario: '--all' },
    { run: 'scenario', scenario: 'retry', without: 'webhook' },
    { run: 'scenario', scenario: 'retry', command: 'id' },
    { run: 'up', scenario: 'retry' },
    { ...load, ratePerSecond: 501 },
    { ...load, ratePerSecond: '10' },
    { ...load, seconds: 601 },
    { ...load, seconds: 0.5 },
    { ...load, duplicatesPercent: -1 },
    { ...load, gateway: 'http://elsewhere.example' },
    { run: 'scenario', scenario: 'retry', without: 'x'.repeat(5_000) },
  ]) {
    const body = typeof order === 'string' ? order : JSON.stringify(order);
    const { status, text } = await ask('POST', '/jobs', { body });
    assert.equal(status, 400, `${body.slice(0, 100)}: ${text}`);
  }
  assert.equal((await ask('POST', '/jobs/1/cancel')).status, 409);
  const { job } = JSON.parse((await ask('GET', '/state')).text) as { job: null };
  assert.equal(job, null);
  assert.equal(await stateOf(), 'ready');
});

test('a process is killed, stands still and goes on, and is seen to', async () => {
  const { ask } = await anAgent();
  const act = async (what: string) => (await ask('POST', `/processes/${name}/${what}`)).status;
  const seen = async () => {
    const { text } = await ask('GET', '/state');
    const { processes } = JSON.parse(text) as { processes: { name: string; state: string }[] };
    return processes.find((each) => each.name === name)?.state;
  };
  assert.equal(await act('pause'), 200);
  assert.deepEqual([await seen(), await stateOf()], ['paused', 'paused']);
  assert.equal(await act('continue'), 200);
  assert.deepEqual([await seen(), await stateOf()], ['running', 'ready']);
  assert.equal(await act('kill'), 200);
  assert.deepEqual([await seen(), await stateOf()], ['gone', 'gone']);
  assert.equal(await act('kill'), 409, 'what is gone cannot be killed');
});

test('an agent that was killed is in nobody’s way, and down takes what it had stand still', async () => {
  const { ask } = await anAgent();
  assert.equal((await ask('POST', `/processes/${name}/pause`)).status, 200);
  await killProcess({ home, name: 'agent' });
  const { processes } = await systemStatus({ home });
  const states = Object.fromEntries(processes.map((each) => [each.name, each.state]));
  assert.deepEqual([states['agent'], states[name]], ['gone', 'paused']);
  const again = await bringUpServices({ home }, table);
  assert.notEqual(again.agent, undefined, 'it belongs to the home until that is taken down');
  assert.equal(await stateOf(), 'ready');

  await killProcess({ home, name: 'agent' });
  await takeDown({ home });
  assert.deepEqual(processesOf(home), []);
  assert.equal((await bringUpServices({ home }, table)).agent, undefined);
});

test('down breaks off what is under way, and nothing of it is left', async () => {
  const { ask } = await anAgent();
  const before = processesOf(home).length;
  const order = JSON.stringify({ run: 'scenario', scenario: 'retry' });
  assert.equal((await ask('POST', '/jobs', { body: order })).status, 202);
  // The script and the command that it hands over to.
  await eventually(async () => processesOf(home).length >= before + 2);
  const told: string[] = [];
  await takeDown({ home, report: (line) => told.push(line) });
  assert.deepEqual(processesOf(home), []);
  assert.equal(told[0], 'agent: stopped', 'by itself, before anything else');
});

test('an act has the processes to itself, and so has a scenario', async (t) => {
  const jobs = openJobs(testHome(t));
  const scenario: Order = { run: 'scenario', scenario: 'retry' };
  const held = jobs.hold('kill a');
  assert.ok(held.outcome === 'held');
  const busy = { outcome: 'busy', by: 'kill a' };
  assert.deepEqual([jobs.hold('start b'), jobs.begin(scenario)], [busy, busy]);
  held.release();
  const begun = jobs.begin(scenario);
  assert.ok(begun.outcome === 'begun');
  assert.deepEqual(jobs.hold('kill a'), { outcome: 'busy', by: begun.job.command });
  await jobs.end();
  await eventually(async () => jobs.hold('kill a').outcome === 'held');
});

test('whoever listens while processes cannot be looked at is let go of, and nothing stays behind', async (t) => {
  // No folder, so that the look itself fails.
  const nowhere = import.meta.filename;
  const jobs = openJobs(nowhere);
  let listeners = 0;
  const listen: typeof jobs.listen = (hear) => {
    listeners += 1;
    const unlisten = jobs.listen(hear);
    return () => {
      listeners -= 1;
      unlisten();
    };
  };
  const agent = { jobs: { ...jobs, listen }, home: nowhere, token: 'some' };
  const { url, close } = await serveAgent(agent, await freePort());
  t.after(close);
  const headers = { authorization: 'Bearer some' };
  await assert.rejects(fetch(new URL('/events', url), { headers }).then((each) => each.text()));
  await eventually(async () => listeners === 0);
  assert.equal((await fetch(new URL('/healthz', url))).status, 200);
});

test('whoever does not wait for answers of the agent, or does not read them, holds up nobody', async (t) => {
  const { ask, url } = await anAgent();
  const { host, port } = new URL(url);
  const headOf = (line: string) => `${line} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  const { pid } = readState(homeAt(home)).processes['agent']!;
  await holdsUpNobody(t, {
    port: Number(port),
    unansweredMax: quickLimits.unansweredMax,
    hasty: ['GET /healthz', 'GET /state', 'POST /jobs'].map(headOf),
    unread: ['GET /healthz'].map(headOf),
    ask: async () => {
      const { status, text } = await ask('GET', '/state');
      assert.equal(status, 200, text);
    },
    residentMiB: async () =>
      Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })) / 1_024,
  });
});

/** A gateway and a catcher that only answer health checks. */
const table = [standIn('ingest-gateway', 'replicas', 'admin'), standIn('catcher', 'one', 'http')];

function standIn(service: string, copies: Service['copies'], use: 'admin' | 'http'): Service {
  const setting = use === 'admin' ? 'ADMIN_PORT' : 'CATCHER_PORT';
  const variable = 'TRIPLOCK_STAND_IN_PORT';
  return {
    name: service,
    main: 'infra/launcher/test/stand-in.ts',
    copies,
    isTraced: false,
    yields: false,
    memoryMiB: 256,
    ports: [{ use, setting, ready: '/readyz', usual: 18_000, variable }],
    settings: () => ({}),
  };
}

type Asking = { headers?: Readonly<Record<string, string | string[]>>; body?: string };

/** The agent of the home, asked with its token unless headers say others. */
async function anAgent() {
  const { agent } = await bringUpServices({ home, agent: 'up' }, table);
  const { url, token } = agent!;
  const usual = { authorization: `Bearer ${token}` };
  const ask = (method: string, path: string, { headers = usual, body }: Asking = {}) =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const raw = Object.entries(headers).flatMap(([header, value]) =>
        [value].flat().flatMap((each) => [header, each]),
      );
      const host = 'host' in headers ? [] : ['host', new URL(url).host];
      const asked = request(new URL(path, url), {
        method,
        headers: [...raw, ...host],
        agent: false,
      });
      asked.on('error', reject);
      asked.on('response', (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        response.on('end', () => resolve({ status: response.statusCode!, text }));
      });
      asked.end(body);
    });
  return { token, url, ask };
}

async function stateOf(): Promise<string | undefined> {
  assert.notEqual(readState(homeAt(home)).processes[name], undefined);
  const { processes } = await systemStatus({ home, only: [name] });
  return processes[0]?.state;
}
