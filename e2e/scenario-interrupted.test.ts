import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { systemStatus } from '@triplock/infra';
import { home, upSystem } from './system.ts';

before(upSystem);

const root = fileURLToPath(new URL('../', import.meta.url));

/** Starts a scenario as a person does, and resolves when it has said what was waited for. */
async function untilSaid(scenario: string, words: RegExp): Promise<ChildProcess> {
  const args = ['infra/triplock.mjs', 'scenario', scenario, '--home', home];
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  for await (const text of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    said += String(text);
    if (words.test(said)) return child;
  }
  throw new Error(`${scenario} ended and had only said: ${said}`);
}

for (const [scenario, words, state] of [
  ['worker-killed', /killed itself right after its commit/, 'gone'],
  ['redelivered-out-of-order', /the dispatchers stand still/, 'paused'],
] as const) {
  test(`Ctrl-C during ${scenario} leaves no process ${state}`, async () => {
    const child = await untilSaid(scenario, words);
    const broken = (await systemStatus({ home })).processes.filter((each) => each.state === state);
    assert.notDeepEqual(broken, [], 'the fault was there');
    child.kill('SIGINT');
    child.stdout!.resume();
    const [code] = (await once(child, 'exit')) as [number];
    assert.equal(code, 130);
    const { processes } = await systemStatus({ home });
    const wrong = processes.filter((each) => each.state !== 'ready');
    assert.deepEqual(wrong, []);
  });
}
