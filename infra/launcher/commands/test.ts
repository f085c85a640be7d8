import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { judge } from '@triplock/lint';
import { forgetData, keepDataInMemory } from '../data-in-memory.ts';
import { oneOf, wholeNumber } from '@triplock/command';
import { cloneFolder, defaultHome, homeAt, readJson, writeJson } from '../home.ts';
import { serverVariable } from '../parts/redis-servers.ts';
import { declaredParts } from '../parts/store-parts.ts';
import { takeDown } from '../take-down.ts';
import { removeTestHomes, sharedTestHome } from '../test/home.ts';
import { runCommand } from './run-command.ts';
import {
  chooseStoreParts,
  runToEnd,
  startTestParts,
  storesVariable,
  type TestRun,
} from './test-run.ts';

/** All tests of a project; the promises have a target of their own, because they share a system. */
const testTargets = ['test', 'promises'];

/** Where the promises have their system. */
const promisesHome = join(defaultHome, 'e2e');

/** What was green last; gone with `nx reset`. */
const greenFile = join(cloneFolder, '.nx', 'green.json');

/** What decides on what tests of a store run whose part is not to be had everywhere. */
const testVariables = declaredParts.flatMap(({ program }) =>
  program.from === 'gcloud SDK' ? program.testVariable : [],
);

const help = `
npm test -- [options]

Runs lint, type checks, the tests of every project and the promises end to end, on a Redis, Kafka,
PostgreSQL and Pub/Sub of its own that are started before and stopped after: in containers where an
engine answers and has the images, else as processes, whose logs stay in .triplock/test/logs.
TRIPLOCK_TEST_PARTS=native or =containers decides; TRIPLOCK_REDIS_SERVER=FILE names the program of
every Redis (docs/stores.md). Tests of a store whose part cannot be had here as a process, nor in a
container, are left out, and it says so${testVariables.map((name) => `: ${name}=native, =container or =none`).join('')}.
What takes longer is \`npm run prove\`; .ci/run runs both. When nothing has changed since all was
green, it says so and ends.

  --again    everything, also what was green before
  --only tests
             all tests and no lint, whatever was green before
  --seed N   the tests in an order that this number gives, instead of the longest first
  --outcome FILE
             writes { files, red: [{ file, why: [text], again }] } there, when tests have run
  --help
`;

await runCommand({
  name: 'test',
  help,
  options: {
    again: { type: 'boolean' },
    only: { type: 'string' },
    seed: { type: 'string' },
    outcome: { type: 'string' },
  },
  run: async ({ values, interrupted }) => {
    const signal = interrupted();
    const { only } = values;
    if (only !== undefined) oneOf(only, { what: '--only', words: ['tests'] });
    const seed = wholeNumber(values.seed, { option: 'seed', min: 0, max: 999_999_999 });
    if (seed !== undefined) process.env['TRIPLOCK_TEST_SEED'] = String(seed);
    if (values.outcome !== undefined)
      process.env['TRIPLOCK_TEST_OUTCOME'] = resolve(values.outcome);
    const tests = allTests(await chooseStoreParts(report));
    const run = { report, signal };
    if (only === 'tests') process.exitCode = await runTests(tests, run);
    else if (!values.again && wasGreen()) report('nothing changed since all was green (--again)');
    else await runAll(values.again ? asNew(tests) : tests, run);
  },
});

function report(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Everything. What was green is remembered unless a file changed meanwhile. */
async function runAll(tests: readonly string[], run: TestRun): Promise<void> {
  const before = contentOfClone();
  process.exitCode = await onParts(run, (endpoints) => runTargets(tests, endpoints, run));
  if (process.exitCode === 0 && contentOfClone() === before) writeJson(greenFile, before ?? '');
}

/** Runs `work` on parts of its own, whose endpoints are in the file that it gets. */
async function onParts(
  run: TestRun,
  work: (endpoints: string) => Promise<number>,
): Promise<number> {
  await takeDownTests('forget');
  keepDataInMemory(homeAt(promisesHome).data);
  try {
    const code = await work(await startTestParts(run, 'startedOften'));
    run.signal.throwIfAborted();
    return code;
  } finally {
    report('stopping what the tests ran on');
    await takeDownTests('keep');
  }
}

/**
 * The parts, the system of the end-to-end tests, and what an interrupted test left. One that cannot
 * be taken down, such as containers without an engine, keeps none of the others.
 */
async function takeDownTests(logs: 'keep' | 'forget'): Promise<void> {
  const homes = [promisesHome, join(sharedTestHome, 'beside-containers'), sharedTestHome];
  const ends = [removeTestHomes, ...homes.map((home) => () => endHome(home, logs))];
  const errors: unknown[] = [];
  for (const end of ends) await end().catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}

/** Logs are kept for whoever looks why a test is red; data, which may be in memory, never is. */
async function endHome(home: string, logs: 'keep' | 'forget'): Promise<void> {
  await takeDown({ home, data: logs });
  forgetData(homeAt(home).data);
}

/**
 * Everything: Nx gives all tests that are due to one runner, which shares processes among them,
 * while rules and types are judged. Exit code 0 only if all are green.
 */
async function runTargets(
  tests: readonly string[],
  endpoints: string,
  run: TestRun,
): Promise<number> {
  const [judged, tested] = await Promise.all([judge(run), runNx(tests, endpoints, run)]);
  return judged ? tested : Math.max(1, tested);
}

/** All tests, also those that were green. */
function runTests(tests: readonly string[], run: TestRun): Promise<number> {
  return onParts(run, (endpoints) => runNx(asNew(tests), endpoints, run));
}

/** The same, and what was green is run once more. */
function asNew(tests: readonly string[]): string[] {
  return [...tests, '--skip-nx-cache'];
}

/** One run of Nx for all, in which both targets are due at once. */
function allTests(leftOut: readonly string[]): string[] {
  const exclude = leftOut.map((name) => `--exclude=${name}`);
  return ['run-many', '-t', ...testTargets, ...exclude, '--parallel=2'];
}

function runNx(words: readonly string[], endpoints: string, { signal }: TestRun): Promise<number> {
  const nx = join(cloneFolder, 'node_modules', 'nx', 'dist', 'bin', 'nx.js');
  const env = {
    NX_DAEMON: 'false',
    // This clone's own: Nx (23.2) takes what was green in any clone of the repository for green.
    NX_CACHE_DIRECTORY: join(cloneFolder, '.nx', 'cache'),
    TRIPLOCK_TEST_ENDPOINTS: endpoints,
  };
  return runToEnd([nx, ...words], { env, signal });
}

function wasGreen(): boolean {
  const content = contentOfClone();
  return content !== undefined && readJson(greenFile) === content;
}

/**
 * One name for the content of every file that git would commit, and for what runs it;
 * `undefined` where this is no clone.
 */
function contentOfClone(): string | undefined {
  const index = join(cloneFolder, '.nx', `content-${process.pid}.index`);
  mkdirSync(dirname(index), { recursive: true });
  const env = { ...process.env, GIT_INDEX_FILE: index };
  try {
    if (git(['add', '--all'], env) === undefined) return undefined;
    const tree = git(['write-tree'], env)?.trim();
    const stores = `${process.env[storesVariable]}, Redis ${process.env[serverVariable]}`;
    const on = `${process.version} ${process.platform}, ${stores}`;
    return tree === undefined ? undefined : `${tree} on ${on}`;
  } finally {
    rmSync(index, { force: true });
  }
}

/** What git prints; `undefined` where it is not, or this is no clone. */
function git(args: readonly string[], env: NodeJS.ProcessEnv = process.env): string | undefined {
  const { status, stdout } = spawnSync('git', args, { cwd: cloneFolder, env, encoding: 'utf8' });
  return status === 0 ? stdout : undefined;
}
