import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { systemStatus } from '@triplock/infra';
import { home, upSystem } from './system.ts';

before(upSystem);

const root = fileURLToPath(new URL('../', import.meta.url));

/** Runs a scenario as a person does, and presses Ctrl-C when it has said something. */
async function interruptAt(
  words: RegExp,
  scenario: string,
): Promise<{ code: number; said: string }> {
  const args = ['infra/triplock.mjs', 'scenario', scenario, '--home', home];
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
  const exit = once(child, 'exit');
  let said = '';
  for await (const text of child.stdout.setEncoding('utf8')) {
    const before = words.test(said);
    said += String(text);
    if (!before && words.test(said)) child.kill('SIGINT');
  }
  const [code] = (await exit) as [number];
  return { code, said };
}

for (const { scenario, broken, mended } of [
  { scenario: 'worker-killed', broken: /killed itself/, mended: /is back/ },
  { scenario: 'redelivered-out-of-order', broken: /stand still/, mended: /go on/ },
]) {
  test(`Ctrl-C during ${scenario} leaves every process running`, async () => {
    const { code, said } = await interruptAt(broken, scenario);
    assert.equal(code, 130, said);
    assert.doesNotMatch(said, mended, 'it was interrupted while something was broken');
    const { processes } = await systemStatus({ home });
    const wrong = processes.filter(({ state }) => state !== 'ready');
    assert.deepEqual(wrong, []);
  });
}
