import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { judge } from '@triplock/lint';
import { chooseTestParts, chooseTestSpanner, testEndpoints } from '@triplock/testing';
import { bringUpParts } from '../bring-up.ts';
import { forgetData, keepDataInMemory } from '../data-in-memory.ts';
import { UsageError } from '../errors.ts';
import { cloneFolder, createHome, defaultHome, homeAt, readJson, writeJson } from '../home.ts';
import { serverVariable } from '../parts/redis-servers.ts';
import { findSpannerEmulator } from '../parts/spanner.ts';
import { takeDown } from '../take-down.ts';
import { removeTestHomes, sharedTestHome } from '../test/home.ts';
import { runCommand } from './run-command.ts';

const spannerVariable = 'TRIPLOCK_TEST_SPANNER';
/** The project that is all about it. */
const inSpanner = '@triplock/ledger-spanner';
/** Projects that are left out. */
const leftOut = () => (process.env[spannerVariable] === 'none' ? [inSpanner] : []);

/** All tests of a project; the promises have a target of their own, because they share a system. */
const testTargets = ['test', 'promises'];

/** Where the promises have their system. */
const promisesHome = join(defaultHome, 'e2e');

/** What was green last; gone with `nx reset`. */
const greenFile = join(cloneFolder, '.nx', 'green.json');

const help = `
npm test -- [options]

Runs lint, type checks, the tests of every project and the promises end to end, on a Redis, Kafka,
PostgreSQL and Pub/Sub of its own that are started before and stopped after: in containers where an
engine answers and has the images, else as processes, whose logs stay in .triplock/test/logs.
TRIPLOCK_TEST_PARTS=native or =containers decides; TRIPLOCK_REDIS_SERVER=FILE names the program of
every Redis (docs/stores.md). Tests of a ledger in Spanner run on Google's
emulator, which there is for Linux alone, else on its container; where neither can be had they are
left out, and it says so: TRIPLOCK_TEST_SPANNER=native, =container or =none. What takes longer is
\`npm run prove\`; .ci/run runs both. When nothing has changed since all was green, it says so and ends.

  --again    also when nothing has changed
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
    const only = chooseOnly(values.only);
    if (values.seed !== undefined) process.env['TRIPLOCK_TEST_SEED'] = seedOf(values.seed);
    if (values.outcome !== undefined)
      process.env['TRIPLOCK_TEST_OUTCOME'] = resolve(values.outcome);
    await chooseSpanner();
    if (only === 'tests') process.exitCode = await runTests(signal);
    else if (!values.again && wasGreen()) report('nothing changed since all was green (--again)');
    else await runAll(signal);
  },
});

/** @throws UsageError for anything but the tests. */
function chooseOnly(word: string | undefined): 'tests' | undefined {
  if (word === undefined || word === 'tests') return word;
  throw new UsageError(`--only is for tests, not '${word}'`);
}

/** @throws UsageError for no whole number. */
function seedOf(word: string): string {
  if (/^\d{1,9}$/.test(word)) return word;
  throw new UsageError(`--seed is a whole number of up to nine digits, not '${word}'`);
}

/** What tests of a ledger in Spanner run on, if they run; their environment tells them. */
async function chooseSpanner(): Promise<void> {
  const { spanner, because } = await chooseTestSpanner(findSpannerEmulator());
  process.env[spannerVariable] = spanner;
  if (spanner === 'none') {
    report(`left out, all tests of ${inSpanner} and what needs Spanner elsewhere: ${because}`);
  }
}

function report(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Everything. What was green is remembered unless a file changed meanwhile. */
async function runAll(signal: AbortSignal): Promise<void> {
  const before = contentOfClone();
  process.exitCode = await onParts(signal, (endpoints) => runTargets(endpoints, signal));
  if (process.exitCode === 0 && contentOfClone() === before) writeJson(greenFile, before ?? '');
}

/** Runs `work` on parts of its own, whose endpoints are in the file that it gets. */
async function onParts(
  signal: AbortSignal,
  work: (endpoints: string) => Promise<number>,
): Promise<number> {
  const home = sharedTestHome;
  await takeDownTests('forget');
  for (const each of [home, promisesHome]) keepDataInMemory(each);
  const { parts, because } = await chooseTestParts();
  const where = parts === 'native' ? 'processes of the launcher' : 'containers';
  report(`tests run on ${where}: ${because}`);
  try {
    if (parts === 'native') await bringUpParts({ home, report, signal, pace: 'startedOften' });
    // They go when this process has ended, however it ends.
    else writeJson(createHome(home).endpoints, await testEndpoints());
    const code = await work(homeAt(home).endpoints);
    signal.throwIfAborted();
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
async function runTargets(endpoints: string, signal: AbortSignal): Promise<number> {
  const [judged, tested] = await Promise.all([
    judge({ report, signal }),
    runNx(allTests(), { endpoints, signal }),
  ]);
  return judged ? tested : Math.max(1, tested);
}

/** All tests, also those that were green. */
function runTests(signal: AbortSignal): Promise<number> {
  const words = [...allTests(), '--skip-nx-cache'];
  return onParts(signal, (endpoints) => runNx(words, { endpoints, signal }));
}

/** One run of Nx for all, in which both targets are due at once. */
function allTests(): string[] {
  const exclude = leftOut().map((name) => `--exclude=${name}`);
  return ['run-many', '-t', ...testTargets, ...exclude, '--parallel=2'];
}

/** Once all was broken off none begins. */
function runNx(
  args: readonly string[],
  { endpoints, signal }: { endpoints: string; signal: AbortSignal },
): Promise<number> {
  if (signal.aborted) return Promise.resolve(128 + constants.signals.SIGINT);
  const nx = join(cloneFolder, 'node_modules', 'nx', 'dist', 'bin', 'nx.js');
  const child = spawn(process.execPath, [nx, ...args], {
    cwd: cloneFolder,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...process.env,
      NX_DAEMON: 'false',
      // This clone's own: Nx (23.2) takes what was green in any clone of the repository for green.
      NX_CACHE_DIRECTORY: join(cloneFolder, '.nx', 'cache'),
      TRIPLOCK_TEST_ENDPOINTS: endpoints,
    },
  });
  signal.addEventListener('abort', () => child.kill('SIGINT'));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, end) => resolve(code ?? 128 + constants.signals[end!]));
  });
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
    const stores = `Spanner ${process.env[spannerVariable]}, Redis ${process.env[serverVariable]}`;
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
