import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { systemStatus } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { home, onTheSystem, upSystem } from './test/system.ts';

/** An agent runs where processes can be killed: in no container. */
const on = onTheSystem(async ({ system }) => {
  agent = system.agent;
});
let agent: { url: string; token: string } | undefined;

type Job = { id: number; state: string; command: string; story: { text: string }[] };

async function ask(path: string, order?: object): Promise<{ status: number; body: { job: Job } }> {
  const { url, token } = agent!;
  const answer = await fetch(new URL(path, url), {
    headers: { authorization: `Bearer ${token}` },
    ...(order && { method: 'POST', body: JSON.stringify(order) }),
  });
  return { status: answer.status, body: (await answer.json()) as { job: Job } };
}

const lastJob = async () => (await ask('/state')).body.job;

/** What the agent has started and not seen end. */
async function childrenOfAgent(): Promise<number[]> {
  const { processes } = await systemStatus({ home });
  const recorded = processes.map(({ pid }) => pid);
  const { pid } = processes.find(({ name }) => name === 'agent')!;
  return execFileSync('ps', ['-axo', 'pid=,ppid=,comm='], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([child, parent, what]) => {
      return Number(parent) === pid && what !== 'ps' && !recorded.includes(Number(child));
    })
    .map(([child]) => Number(child));
}

test('one job at a time: a second is refused with what runs, and one that is cancelled leaves everything as it was', async (t) => {
  if (agent === undefined) return t.skip('an agent runs where the system is processes');
  const begun = await ask('/jobs', { run: 'scenario', scenario: 'worker-killed' });
  assert.equal(begun.status, 202);
  const { id, command } = begun.body.job;
  const second = await ask('/jobs', { run: 'scenario', scenario: 'retry' });
  assert.equal(second.status, 409);
  assert.match(JSON.stringify(second.body), new RegExp(command.slice(0, 30)));
  const kill = await ask('/processes/ledger-worker-1/kill', {});
  assert.equal(kill.status, 409, 'it breaks processes itself');

  const isBroken = async () =>
    (await lastJob()).story.some(({ text }) => /killed itself/.test(text));
  await eventually(isBroken, { withinMs: 60_000, what: 'a worker that killed itself' });
  assert.equal((await ask(`/jobs/${id + 1}/cancel`, {})).status, 409, 'another job than that');
  assert.equal((await ask(`/jobs/${id}/cancel`, {})).status, 202);
  await eventually(async () => (await lastJob()).state === 'cancelled', {
    withinMs: 60_000,
    what: 'the end of a job that was cancelled',
  });
  const { processes } = await systemStatus({ home, withinMs: 60_000 });
  assert.deepEqual(
    processes.filter(({ state }) => state !== 'ready'),
    [],
  );
  assert.deepEqual(await childrenOfAgent(), []);
  assert.equal((await ask(`/jobs/${id}/cancel`, {})).status, 409);
});

test('a process that was killed is started again alone, with the settings that it had', async (t) => {
  if (agent === undefined) return t.skip('an agent runs where the system is processes');
  const pids = async () => {
    const { processes } = await systemStatus({ home });
    return new Map(processes.map(({ name, pid }) => [name, pid]));
  };
  const before = await pids();
  assert.equal((await ask('/processes/ledger-worker-2/kill', {})).status, 200);
  try {
    assert.equal((await ask('/processes/ledger-worker-2/start', {})).status, 200);
  } finally {
    await upSystem();
  }
  const after = await pids();
  const changed = [...after].filter(([name, pid]) => before.get(name) !== pid);
  assert.deepEqual(
    changed.map(([name]) => name),
    ['ledger-worker-2'],
  );
  assert.equal(on.system.agent?.url, agent.url);
});

test('a process that somebody kills from outside is started again by the agent, and counted', async (t) => {
  if (agent === undefined) return t.skip('an agent runs where the system is processes');
  const name = 'partner-notifier-1';
  const seen = async () => {
    const { processes } = await systemStatus({ home, only: [name] });
    return processes[0]!;
  };
  const before = await seen();
  process.kill(before.pid, 'SIGKILL');
  const isBack = async () => {
    const { pid, state } = await seen();
    return pid !== before.pid && state === 'ready';
  };
  await eventually(isBack, { withinMs: 90_000, what: 'a process that comes back' });
  assert.equal((await seen()).restarts, before.restarts + 1);
});
