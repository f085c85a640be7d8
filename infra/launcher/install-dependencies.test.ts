import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { eventually } from '@triplock/testing';
import { installDependencies } from './install-dependencies.mjs';
import { showProgress } from './progress-line.mjs';
import { testHome } from './test/home.ts';

/** What a terminal, or a log, was shown. */
function aStream({ isTTY = false } = {}) {
  const written: string[] = [];
  return { isTTY, columns: 60, written, write: (text: string) => written.push(text) };
}

/** A clone with one dependency, and an npm on PATH that does what is asked. */
function aClone(t: TestContext, npm: string): string {
  const root = testHome(t);
  const lock = { packages: { '': {}, 'node_modules/one': { version: '1.0.0' } } };
  writeFileSync(join(root, 'package.json'), JSON.stringify({ allowScripts: {} }));
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify(lock));
  mkdirSync(join(root, 'bin'));
  writeFileSync(join(root, 'bin', 'npm'), `#!/bin/sh\n${npm}\n`);
  chmodSync(join(root, 'bin', 'npm'), 0o755);
  const { PATH, npm_execpath: own } = process.env;
  t.after(() => Object.assign(process.env, { PATH, ...(own && { npm_execpath: own }) }));
  process.env['PATH'] = `${join(root, 'bin')}:${PATH}`;
  delete process.env['npm_execpath'];
  return root;
}

const installs =
  'mkdir -p node_modules && cp package-lock.json node_modules/.package-lock.json && echo added 1 package';

test('an installation is two lines in a log, and what npm says of a good end is not among them', async (t) => {
  const root = aClone(t, installs);
  const stream = aStream();
  assert.equal(await installDependencies(root, stream), undefined);
  assert.equal(stream.written.length, 2);
  assert.match(stream.written[0]!, /^triplock: installing dependencies with npm ci, .*\n$/);
  assert.match(stream.written[1]!, /^triplock: dependencies are installed \(\d+ s\)\n$/);

  const again = aStream();
  assert.equal(await installDependencies(root, again), undefined);
  assert.deepEqual(again.written, []);
});

test('an npm that fails is shown with all that it printed', async (t) => {
  const root = aClone(t, 'echo out of reach >&2; exit 7');
  const stream = aStream();
  const problem = await installDependencies(root, stream);
  assert.equal(problem, 'npm ci failed (exit code 7); its messages are above');
  assert.match(stream.written.at(-2)!, /the dependencies were not installed/);
  assert.equal(stream.written.at(-1), 'out of reach\n');
});

test('an installation that is broken off waits for npm, and leaves no lock', async (t) => {
  const root = aClone(
    t,
    "trap 'sleep 0.5; echo > ended; exit 1' TERM; echo > begun; while :; do sleep 0.05; done",
  );
  const { href } = new URL('./install-dependencies.mjs', import.meta.url);
  const script = `(await import('${href}')).installDependencies(process.argv[1])`;
  const args = ['--input-type=module', '-e', script, root];
  const child = spawn(process.execPath, args, { stdio: 'ignore' });
  const exit = once(child, 'exit');
  await eventually(async () => existsSync(join(root, 'begun')));
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [null, 'SIGTERM']);
  assert.equal(existsSync(join(root, 'ended')), true, 'npm went on alone');
  assert.deepEqual(readdirSync(join(root, '.triplock')), []);
});

test('on a terminal progress is one line that is rewritten each second and fits it', (t) => {
  t.mock.timers.enable({ apis: ['setInterval', 'Date'] });
  const stream = aStream({ isTTY: true });
  const progress = showProgress(stream, `installing ${'much '.repeat(20)}`);
  for (let second = 1; second <= 3; second += 1) t.mock.timers.tick(1_000);
  progress.now('running scripts');
  progress.end('installed');
  const [, second] = stream.written;
  assert.equal(stream.written.length, 7);
  for (const each of stream.written.slice(0, 6))
    assert.match(each, /^\r\u001b\[2Ktriplock: [^\n]*$/);
  assert.ok(second!.length < stream.columns + '\r\u001b[2K'.length);
  assert.match(second!, /much.* \(1 s\)$/);
  assert.match(stream.written[4]!, /running scripts \(3 s\)$/);
  assert.deepEqual(stream.written.slice(5), ['\r\u001b[2Ktriplock: installed (3 s)', '\n']);
});

test('in a log progress is a line every half minute at most', (t) => {
  t.mock.timers.enable({ apis: ['setInterval', 'Date'] });
  const stream = aStream();
  const progress = showProgress(stream, 'installing');
  for (const ms of [30_000, 30_000, 5_000]) t.mock.timers.tick(ms);
  progress.now('running scripts');
  progress.end('installed');
  assert.deepEqual(stream.written, [
    'triplock: installing\n',
    'triplock: installing (30 s)\n',
    'triplock: installing (60 s)\n',
    'triplock: installed (65 s)\n',
  ]);
});
