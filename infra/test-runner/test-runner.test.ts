import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { eventually } from '@triplock/testing';

const root = resolve(import.meta.dirname, '../..');
const head = `import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
`;

type Told = { files: number; red: { file: string; why: string[]; again: string }[] };
type Files = Readonly<Record<string, string>>;

/** Writes files of these texts, by their names, for one test. */
function write(t: TestContext, files: Files): string {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-runner-'));
  t.after(() => rmSync(folder, { recursive: true }));
  // What is to be there for workers, so that what they leave is seen.
  mkdirSync(join(folder, 'tmp'));
  for (const [name, body] of Object.entries(files)) {
    writeFileSync(join(folder, `${name}.test.mjs`), head + body);
  }
  return folder;
}

/** Runs files of these texts, by their names, and gives what was printed and what is red. */
async function run(
  t: TestContext,
  files: Files,
  {
    lane,
    seeds = [undefined],
    seconds = 600,
  }: { lane?: string; seeds?: readonly (string | undefined)[]; seconds?: number } = {},
) {
  const folder = write(t, files);
  const plan = planOf(folder, { files: ['*.test.mjs'], ...(lane && { lane }) });
  const outcome = join(folder, 'outcome.json');
  const runs = [];
  for (const seed of seeds) {
    const env = {
      TRIPLOCK_TEST_OUTCOME: outcome,
      TRIPLOCK_TEST_SECONDS: `${seconds}`,
      ...(seed !== undefined && { TRIPLOCK_TEST_SEED: seed }),
    };
    const ran = await ended(start(folder, { words: ['--plan'], plan, env }));
    const { red, files: count } = JSON.parse(readFileSync(outcome, 'utf8')) as Told;
    const redBy = Object.fromEntries(
      red.map(({ file, why }) => [/([^/]+)\.test\.mjs$/.exec(file)![1]!, why.join('\n')]),
    );
    runs.push({ ...ran, count, red, redBy });
  }
  return { ...runs[0]!, folder, runs };
}

function planOf(folder: string, options: object): object {
  return { tasks: [{ id: 'a', root: relative(root, folder), options }] };
}

type Started = { words: readonly string[]; plan?: object; env?: Readonly<Record<string, string>> };

/** Starts the runner as Nx or a person does, whose temporary folder is the test's. */
function start(folder: string, { words, plan, env }: Started) {
  const { TRIPLOCK_TEST_SEED: _, TRIPLOCK_TEST_OUTCOME: __, ...usual } = process.env;
  const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts'), ...words], {
    cwd: root,
    env: { ...usual, FOLDER: folder, TMPDIR: join(folder, 'tmp'), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.end(JSON.stringify(plan));
  return child;
}

async function ended(child: ReturnType<typeof start>) {
  const [printed, errors, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<number | null>((ended) => child.once('exit', ended)),
  ]);
  return { code, printed: printed + errors };
}

/** A test that starts processes, one in a session of its own, writes their ids and does not end. */
const neverEnds = `import { spawn } from 'node:child_process'; import { writeFileSync } from 'node:fs';
  test('never ends', () => {
    const [a, b] = [false, true].map((detached) => spawn('sleep', ['600'], { detached, stdio: 'inherit' }));
    writeFileSync(process.env.FOLDER + '/pids.part', process.pid + ' ' + a.pid + ' ' + b.pid);
    renameSync(process.env.FOLDER + '/pids.part', process.env.FOLDER + '/pids');
    return new Promise(() => undefined);
  });
  import { renameSync } from 'node:fs';`;

/** The ids that {@link neverEnds} wrote, once it did. */
function idsIn(folder: string): Promise<number[]> {
  const file = join(folder, 'pids');
  return eventually(
    async () => existsSync(file) && readFileSync(file, 'utf8').split(' ').map(Number),
  );
}

/** Whether a process is there; one that has ended and that nobody has asked for is not. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

test('hooks at the top of a file are the file’s own, and settings that it changed are put back', async (t) => {
  const file = (name: string) => `
    let own = process.env.SEEN;
    before(() => { assert.equal(own, undefined); own = process.env.SEEN = '${name}'; });
    after(() => assert.equal(own, '${name}'));
    test('sees its own hook alone', () => assert.equal(own, '${name}'));`;
  const { code, printed, count } = await run(t, { one: file('one'), two: file('two') });
  assert.equal(code, 0, printed);
  assert.equal(count, 2);
  assert.match(printed, /^2 passed, 0 failed, 0 skipped$/m);
});

test('what is red is named last, with the promise and the command that repeats it', async (t) => {
  const { code, printed, red } = await run(t, {
    good: `test('holds', () => undefined);`,
    bad: `test('one is two', () => assert.equal(1, 2)); test('holds', () => undefined);`,
  });
  assert.equal(code, 1);
  assert.equal(red.length, 1);
  const end = printed.slice(printed.indexOf('\nred: '));
  assert.match(end, /one is two \(bad\.test\.mjs:3\)/);
  assert.match(end, /again: .*node --test --test-name-pattern='one is two' .*bad\.test\.mjs$/m);
  assert.match(end, /^2 passed, 1 failed, 0 skipped\n$/m);
});

test('a file is red that leaves a port, a process or a file, or ends its process', async (t) => {
  const { redBy, count, printed } = await run(
    t,
    {
      port: `import { createServer } from 'node:net';
      test('listens', () => new Promise((done) => createServer().listen(0, '127.0.0.1', done)));`,
      child: `import { spawn } from 'node:child_process';
      test('starts', () => void spawn('sleep', ['60'], { stdio: 'ignore' }).unref());`,
      rubbish: `import { mkdtempSync } from 'node:fs'; import { tmpdir } from 'node:os';
      test('writes', () => void mkdtempSync(tmpdir() + '/rubbish-'));`,
      exits: `test('ends all', () => process.exit(3));`,
      stray: `test('ends early', () => void setImmediate(() => Promise.reject(new Error('too late'))));
      test('is there meanwhile', () => new Promise((done) => setTimeout(done, 20)));`,
      broken: `throw new Error('no test at all');`,
      session: `import { spawn } from 'node:child_process';
      test('starts', () => void spawn('sleep', ['60'], { stdio: 'ignore', detached: true }).unref());`,
      only: `test.only('alone', () => undefined);
      test('left out', () => undefined);`,
      empty: '',
      good: `test('holds', () => undefined);`,
    },
    { seconds: 5 },
  );
  assert.equal(count, 10, printed);
  const names = ['broken', 'empty', 'exits', 'only', 'port', 'rubbish', 'stray'];
  // Nobody tells who started a process where there is no /proc.
  if (process.platform === 'linux') names.push('child', 'session');
  assert.deepEqual(Object.keys(redBy).sort(), names.sort());
  assert.match(redBy['port']!, /left behind: a port that it listens on/);
  assert.match(redBy['rubbish']!, /left behind: rubbish-\S+ in the temporary folder/);
  assert.match(redBy['exits']!, /its process ended before it did: exit code 3/);
  assert.match(redBy['stray']!, /exit code 1, set by what ran on/);
  assert.match(printed, /too late/);
  assert.match(redBy['broken']!, /no test at all/);
  assert.match(redBy['only']!, /its other tests did not run/);
  assert.match(redBy['empty']!, /it has no test/);
  if (process.platform !== 'linux') return;
  for (const name of ['child', 'session'])
    assert.match(redBy[name]!, /left behind: process \d+, sleep 60/);
});

test('what is left out says why, and what is yet to be done may fail', async (t) => {
  const { code, printed } = await run(t, {
    skipped: `import { suite } from 'node:test';
      suite('all of it', { skip: 'no such store here' }, () => void test('never runs', () => assert.fail()));`,
    todo: `test('some day', { todo: 'when there is time' }, () => assert.fail());`,
  });
  assert.equal(code, 0, printed);
  assert.match(printed, /left out: all of it: no such store here/);
  assert.match(printed, /left out: some day: when there is time/);
  assert.match(printed, /^0 passed, 0 failed, 2 skipped$/m);
});

test('a file that cannot be loaded is named, and repeated as a whole', async (t) => {
  const { red } = await run(t, { broken: `import './is-not-there.mjs';` });
  assert.match(red[0]!.why[0]!, /^the file as a whole \(broken\.test\.mjs\)\nError.*: Cannot find/);
  assert.match(red[0]!.again, /node --test \S+broken\.test\.mjs$/);
});

test('a file that hangs is ended, what it had started too, and the others run', async (t) => {
  const { redBy, count, printed, folder } = await run(
    t,
    {
      waits: neverEnds,
      // As in an endless loop nothing else is heard, and it takes no processor meanwhile.
      spins: `test('spins', () => {
        console.log('it spins');
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      });`,
      loads: `await new Promise(() => undefined);`,
      good: `test('holds', () => undefined);`,
    },
    { seconds: 5 },
  );
  assert.equal(count, 4, printed);
  assert.deepEqual(Object.keys(redBy).sort(), ['loads', 'spins', 'waits']);
  assert.match(redBy['waits']!, /never ends .*\n'test timed out after 5000ms'/);
  for (const name of ['loads', 'spins']) assert.match(redBy[name]!, /not heard of for 15 s/);
  assert.match(printed, /it spins/);
  if (process.platform === 'linux') {
    const ids = await idsIn(folder);
    assert.deepEqual(ids.filter(isAlive), []);
  }
  assert.deepEqual(readdirSync(join(folder, 'tmp')), []);
});

test('of a hundred megabytes that a file prints the end is shown', async (t) => {
  const { code, printed } = await run(t, {
    prints: `test('prints', () => {
      const line = 'x'.repeat(1_023) + '\\n';
      for (let n = 0; n < 100_000; n += 1) process.stdout.write(line);
      console.log('the very last');
      assert.fail('and fails');
    });`,
  });
  assert.equal(code, 1);
  assert.ok(printed.length < 1_000_000, `${printed.length} characters`);
  assert.match(printed, /^ +the very last$/m);
});

for (const signals of [['SIGINT', 'SIGINT'], ['SIGTERM', 'SIGTERM'], ['SIGKILL']] as const) {
  test(
    `after ${signals.join(' and ')} nothing is left of a run`,
    { skip: process.platform !== 'linux' && 'nobody tells processes where there is no /proc' },
    async (t) => {
      const folder = write(t, { a: neverEnds });
      const runner = start(folder, { words: [join(folder, 'a.test.mjs')] });
      const end = ended(runner);
      const ids = await idsIn(folder);
      for (const signal of signals) runner.kill(signal);
      const { code, printed } = await end;
      assert.equal(code, { SIGINT: 130, SIGTERM: 143, SIGKILL: null }[signals[0]]);
      if (code !== null) assert.match(printed, /^1 file of 1 did not run$/m);
      await eventually(async () => !ids.some(isAlive));
      await eventually(async () => readdirSync(join(folder, 'tmp')).length === 0);
    },
  );
}

test('what cannot be run or written is told before any test runs', async (t) => {
  const folder = write(t, { a: `test('runs', () => undefined);` });
  const file = join(folder, 'a.test.mjs');
  const told = async (started: Started) => {
    const { code, printed } = await ended(start(folder, started));
    assert.equal(code, 1, printed);
    return printed;
  };
  const env = (name: string, value: string) => ({ words: [file], env: { [name]: value } });
  assert.match(await told({ words: [] }), /^tests: name the files/);
  assert.match(await told({ words: [`${file}x`] }), /^tests: there is no file .*mjsx$/m);
  assert.match(await told({ words: [folder] }), /^tests: there is no file /);
  const plan = planOf(folder, { files: ['*.nothing.mjs'] });
  assert.match(await told({ words: ['--plan'], plan }), /^tests: a has no file \*\.nothing\.mjs/);
  assert.match(await told(env('TRIPLOCK_TEST_OUTCOME', folder)), /^tests: the outcome cannot be/);
  const nowhere = join(folder, 'nowhere', 'outcome');
  assert.match(await told(env('TRIPLOCK_TEST_OUTCOME', nowhere)), /^tests: the outcome cannot be/);
  assert.match(await told(env('TRIPLOCK_TEST_PROCESSES', '0')), /^tests: TRIPLOCK_TEST_PROCESSES /);
  assert.match(await told(env('TRIPLOCK_TEST_SEED', 'x')), /^tests: TRIPLOCK_TEST_SEED is a whole/);
  // As of a full disk: no worker has a folder.
  const lost = await told(env('TMPDIR', join(folder, 'nowhere')));
  assert.match(lost, /^tests: ENOENT: .*mkdtemp[^]*^1 file of 1 did not run$/m);
});

test('files of a lane run one after the other, in their order and in one process', async (t) => {
  const file = (name: string) => `import { appendFileSync } from 'node:fs';
    const note = (what) => appendFileSync(process.env.FOLDER + '/order', '${name} ' + what + ' ' + process.pid + ' ');
    test('runs', async () => { note('begins'); await new Promise((done) => setTimeout(done, 20)); note('ends'); });`;
  const files = { b: file('b'), a: file('a'), c: file('c') };
  const { folder, code, printed } = await run(t, files, { lane: 'one' });
  assert.equal(code, 0, printed);
  const order = readFileSync(join(folder, 'order'), 'utf8').trim();
  const inTurn = /^a begins (\d+) a ends \1 b begins \1 b ends \1 c begins \1 c ends \1$/;
  assert.match(order, inTurn);
});

test('a seed gives one order, another seed another, and each runs everything', async (t) => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const files = Object.fromEntries(names.map((name) => [name, `test('runs', () => undefined);`]));
  const { runs } = await run(t, files, { lane: 'one', seeds: ['7', '7', '8'] });
  const [first, again, other] = runs.map(({ printed }) =>
    [...printed.matchAll(/^✔ .*\/(\w)\.test\.mjs: /gm)].map(([, name]) => name!),
  ) as [string[], string[], string[]];
  assert.deepEqual(first.toSorted(), names);
  assert.deepEqual(other.toSorted(), names);
  assert.notDeepEqual(first, other);
  assert.deepEqual(first, again);
});

test('one that was told to has a process of its own', async (t) => {
  const file = (line: string) => `${line}
    import { appendFileSync } from 'node:fs';
    test('runs', () => appendFileSync(process.env.FOLDER + '/pids', process.pid + '\\n'));`;
  const own = file('// In a process of its own: it changes what others stand on.');
  const { folder } = await run(t, { a: file(''), b: own, c: file('') }, { lane: 'one' });
  const pids = readFileSync(join(folder, 'pids'), 'utf8').trim().split('\n');
  assert.equal(new Set(pids).size, 3);
});
