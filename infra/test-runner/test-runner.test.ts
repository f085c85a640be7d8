import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';

const root = resolve(import.meta.dirname, '../..');
const head = `import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
`;

type Told = { files: number; red: { file: string; why: string[]; again: string }[] };

/** Runs files of these texts, by their names, and gives what was printed and what is red. */
async function run(
  t: TestContext,
  files: Readonly<Record<string, string>>,
  { lane, seeds = [undefined] }: { lane?: string; seeds?: readonly (string | undefined)[] } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-runner-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, body] of Object.entries(files)) {
    writeFileSync(join(folder, `${name}.test.mjs`), head + body);
  }
  const options = { files: ['*.test.mjs'], ...(lane && { lane }) };
  const plan = { tasks: [{ id: 'a', root: relative(root, folder), options }] };
  const runs = [];
  for (const seed of seeds) runs.push(await runPlan({ plan, folder, seed }));
  return { ...runs[0]!, folder, runs };
}

type Planned = { plan: object; folder: string; seed: string | undefined };

async function runPlan({ plan, folder, seed }: Planned) {
  const outcome = join(folder, 'outcome.json');
  const { TRIPLOCK_TEST_SEED: _, ...env } = process.env;
  const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts'), '--plan'], {
    cwd: root,
    env: {
      ...env,
      TRIPLOCK_TEST_OUTCOME: outcome,
      FOLDER: folder,
      ...(seed !== undefined && { TRIPLOCK_TEST_SEED: seed }),
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.end(JSON.stringify(plan));
  const [printed, errors, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<number | null>((ended) => child.once('exit', ended)),
  ]);
  const { red, files: count } = JSON.parse(readFileSync(outcome, 'utf8')) as Told;
  const redBy = Object.fromEntries(
    red.map(({ file, why }) => [/([^/]+)\.test\.mjs$/.exec(file)![1]!, why.join('\n')]),
  );
  return { code, printed: printed + errors, count, red, redBy };
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
  const { redBy, count, printed } = await run(t, {
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
    good: `test('holds', () => undefined);`,
  });
  assert.equal(count, 7, printed);
  const names = ['broken', 'exits', 'port', 'rubbish', 'stray'];
  // Nobody tells who started a process where there is no /proc.
  if (process.platform === 'linux') names.push('child');
  assert.deepEqual(Object.keys(redBy).sort(), names.sort());
  assert.match(redBy['port']!, /left behind: a port that it listens on/);
  assert.match(redBy['rubbish']!, /left behind: rubbish-\S+ in the temporary folder/);
  assert.match(redBy['exits']!, /its process ended before it did: exit code 3/);
  assert.match(redBy['stray']!, /exit code 1, set by what ran on/);
  assert.match(printed, /too late/);
  assert.match(redBy['broken']!, /no test at all/);
  if (process.platform === 'linux')
    assert.match(redBy['child']!, /left behind: process \d+, sleep 60/);
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
