import assert from 'node:assert/strict';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { eventually } from '@triplock/testing';
import { bringUpParts } from './bring-up.ts';
import { createHome, homeAt } from './home.ts';
import { cached } from './programs/programs.ts';
import { isFree } from './ports.ts';
import { isSameProcess, startTimeOf } from './processes/identity.ts';
import { runTool } from './processes/run-tool.ts';
import { openSession, readState, writeState } from './session.ts';
import { takeDown } from './take-down.ts';
import { processesOf, runScript, startScript, testHome } from './test/home.ts';

const started = { withinMs: 60_000, what: 'the first process of the home' };

/** Something that looks like a part of ours and is not. */
function aBystander(t: TestContext, mark: Record<string, string> = {}): ChildProcess {
  const child = spawn('sleep', ['300'], { env: { ...process.env, ...mark }, stdio: 'ignore' });
  t.after(() => child.kill());
  return child;
}

/** As a launcher is named that has ended. */
const goneLauncher = `${process.pid} long ago`;

const isAlive = (child: ChildProcess) => startTimeOf(child.pid!) !== undefined;

test('after a kill -9 of the launcher, down ends all it had started and nothing else', async (t) => {
  const home = testHome(t);
  const bystander = aBystander(t, { TRIPLOCK_HOME: `${home}-of-somebody-else` });
  const launcher = startScript(['up', '--parts-only', '--home', home]);
  await eventually(async () => 'redis' in readState(homeAt(home)).processes, started);
  process.kill(-launcher.pid!, 'SIGKILL');
  await once(launcher, 'exit');
  assert.notDeepEqual(processesOf(home), []);

  const { code, stdout } = await runScript(['down', '--home', home]);
  assert.equal(code, 0);
  assert.match(stdout, /redis: stopped/);
  assert.deepEqual(processesOf(home), []);
  assert.equal(isAlive(bystander), true);
});

test('after a kill -9 of the launcher, up finishes what it had begun, Kafka and all', async (t) => {
  const home = testHome(t);
  const launcher = startScript(['up', '--parts-only', '--home', home]);
  await eventually(async () => 'kafka' in readState(homeAt(home)).processes, started);
  process.kill(-launcher.pid!, 'SIGKILL');
  await once(launcher, 'exit');
  await bringUpParts({ home });
  const records = Object.values(readState(homeAt(home)).processes);
  assert.deepEqual(records.map(({ name }) => name).sort(), [
    'kafka',
    'postgres',
    'pubsub',
    'redis',
  ]);
  assert.ok(records.every(isSameProcess));
  await takeDown({ home });
  await bringUpParts({ home });
});

test('a process that was started and not yet recorded is found by its mark', async (t) => {
  const home = testHome(t);
  const unrecorded = aBystander(t, { TRIPLOCK_HOME: home, TRIPLOCK_LAUNCHER: goneLauncher });
  const bystander = aBystander(t);
  await takeDown({ home });
  assert.equal(isAlive(unrecorded), false);
  assert.equal(isAlive(bystander), true);
});

test('what a launcher is at work with goes on, and so does what carries the mark and nobody started', async (t) => {
  const home = testHome(t);
  const launcher = aBystander(t);
  const ofIt = `${launcher.pid} ${startTimeOf(launcher.pid!)}`;
  const atWork = aBystander(t, { TRIPLOCK_HOME: home, TRIPLOCK_LAUNCHER: ofIt });
  const shell = aBystander(t, { TRIPLOCK_HOME: home });
  await takeDown({ home });
  assert.deepEqual([isAlive(atWork), isAlive(shell)], [true, true]);
  const ended = once(launcher, 'exit');
  launcher.kill('SIGKILL');
  await ended;
  await takeDown({ home });
  assert.deepEqual([isAlive(atWork), isAlive(shell)], [false, true]);
});

test('a pid that was given to somebody else meanwhile is left alone', async (t) => {
  const home = testHome(t);
  const somebody = aBystander(t);
  const record = { name: 'redis', pid: somebody.pid!, ports: {}, settings: '' };
  writeState(homeAt(home), {
    ...readState(homeAt(home)),
    processes: { redis: { ...record, startedAt: 'long ago' } },
  });
  await takeDown({ home });
  assert.equal(isAlive(somebody), true);
});

/**
 * A program whose first thread ends and whose other goes on listening: what a process is that was
 * killed a moment ago on a busy machine.
 */
const halfGone = `
import ctypes, os, socket, threading
listening = socket.create_server(('127.0.0.1', 0))
def listen():
    while True: listening.accept()
threading.Thread(target=listen).start()
os.write(1, b'%d' % listening.getsockname()[1])
ctypes.CDLL(None).pthread_exit(None)`;
const hasPython =
  process.platform === 'linux' && spawnSync('python3', ['-c', 'import ctypes']).status === 0;

test(
  'a process is there until its last thread has ended, since its ports are taken until then',
  { skip: !hasPython && 'no python3 here to end one thread of two with' },
  async (t) => {
    const child = spawn('python3', ['-c', halfGone], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(child, 'exit');
    t.after(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    const startedAt = startTimeOf(child.pid!)!;
    const [printed] = (await once(child.stdout, 'data')) as [Buffer];
    const isHalfGone = async () => /\) Z /.test(readFileSync(`/proc/${child.pid}/stat`, 'utf8'));
    await eventually(isHalfGone);
    assert.equal(await isFree(Number(printed.toString())), false);
    assert.equal(isSameProcess({ pid: child.pid!, startedAt }), true);
    child.kill('SIGKILL');
    await ended;
    assert.equal(isSameProcess({ pid: child.pid!, startedAt }), false);
  },
);

test('Ctrl-C during up stops what it had started', async (t) => {
  const home = testHome(t);
  const launcher = startScript(['up', '--parts-only', '--home', home]);
  await eventually(async () => 'redis' in readState(homeAt(home)).processes, started);
  launcher.kill('SIGINT');
  const [code] = (await once(launcher, 'exit')) as [number];
  assert.equal(code, 130);
  assert.deepEqual(processesOf(home), []);
});

/** Says its version to who looks first, and takes its time for the command. */
const slowJava = (asked: string) => `#!/bin/sh
[ -e '${asked}' ] && { touch '${asked}-again'; exec sleep 30; }
touch '${asked}'; echo 'openjdk version "17.0.15"' >&2`;

test('a Ctrl-C that ends a program which is asked for its version interrupts, and nothing is missing', async (t) => {
  const home = testHome(t);
  const asked = join(home, 'asked');
  mkdirSync(join(home, 'bin'));
  writeFileSync(join(home, 'bin', 'java'), slowJava(asked), { mode: 0o755 });
  const words = ['up', '--parts-only', '--home', join(home, 'instance')];
  const PATH = `${join(home, 'bin')}${delimiter}${process.env['PATH']}`;
  const launcher = startScript(words, { PATH, JAVA_HOME: '' });
  await eventually(async () => existsSync(`${asked}-again`), started);
  process.kill(-launcher.pid!, 'SIGINT');
  assert.deepEqual(await once(launcher, 'exit'), [130, null]);
  assert.deepEqual(processesOf(join(home, 'instance')), []);
});

/** Stands for Maven: a script whose own child goes on writing a while after it was told to end. */
const slowToEnd = `#!/bin/sh
here=$PWD
(trap 'sleep 0.5; mkdir -p "$here/late"; echo late > "$here/late/file"; exit' TERM
 echo begun > "$here/begun"; while :; do sleep 0.05; done)`;

test('Ctrl-C while a part is fetched leaves nothing of it, nor who fetches it', async (t) => {
  const home = testHome(t);
  const [bin, cache] = [join(home, 'bin'), join(home, 'cache')];
  mkdirSync(bin);
  writeFileSync(join(bin, 'mvn'), slowToEnd, { mode: 0o755 });
  const of = join(home, 'instance');
  const session = openSession(createHome(of), { report: () => undefined, signal: t.signal });
  const cut = new AbortController();
  process.env['XDG_CACHE_HOME'] = cache;
  t.after(() => delete process.env['XDG_CACHE_HOME']);
  const fetching = cached({ ...session, signal: cut.signal }, { name: 'part' }, (filling) => {
    const command = { file: join(bin, 'mvn'), args: [], cwd: filling, settings: {} };
    return runTool({ ...session, signal: cut.signal }, { name: 'mvn', doing: 'fetching', command });
  });
  const kept = () => readdirSync(join(cache, 'triplock'), { recursive: true }).map(String);
  await eventually(async () => kept().some((name) => name.endsWith('/begun')), started);
  cut.abort();
  await assert.rejects(fetching, { name: 'AbortError' });
  assert.deepEqual(processesOf(of), []);
  assert.deepEqual(
    kept().filter((name) => !name.startsWith('lock')),
    [],
  );
});

test('when only the outer launcher is killed, the command ends as if it had been asked to', async (t) => {
  const home = testHome(t);
  const launcher = startScript(['up', '--parts-only', '--home', home]);
  await eventually(async () => 'redis' in readState(homeAt(home)).processes, started);
  launcher.kill('SIGKILL');
  await eventually(async () => processesOf(home).length === 0, started);
});
