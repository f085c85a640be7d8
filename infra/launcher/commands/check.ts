import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { affectedTests, changedFiles, GitError, judge } from '@triplock/lint';
import { chooseTestParts, chooseTestSpanner, testEndpoints } from '@triplock/testing';
import { bringUpParts } from '../bring-up.ts';
import { LauncherError } from '../errors.ts';
import { cloneFolder, createHome, homeAt, writeJson } from '../home.ts';
import { findSpannerEmulator } from '../parts/spanner.ts';
import { sharedTestHome } from '../test/home.ts';
import { runCommand } from './run-command.ts';

const help = `
npm run check -- [options]

The short one before a commit. Judges rules, types and format of every file that is not known to be
good: of what changed, and of whatever reaches that by its imports. Then it runs the tests of what
changed since the branch left the default branch, committed or not, new files too; on the default
branch itself, since what its remote has. These are all tests of a project with a change, and of the
projects that depend on it those that reach the change. What they run on stays up for the next check:
npm run down -- --home .triplock/test ends it.

The promises end to end (e2e) are left to npm test.

  --since REV  what changed since then; HEAD: what is not committed
  --help
`;

/** Its tests are the promises, and each brings up a whole system. */
const promises = '@triplock/e2e';
const spannerVariable = 'TRIPLOCK_TEST_SPANNER';
/** The project that is all about it. */
const inSpanner = '@triplock/ledger-spanner';

await runCommand({
  name: 'check',
  help,
  options: { since: { type: 'string' } },
  run: async ({ values, interrupted }) => {
    const signal = interrupted();
    await chooseSpanner();
    const { tests, needParts, leftOut } = chooseTests(changes(values.since));
    const parts = needParts ? startParts(signal) : undefined;
    // Heard below, after what was judged.
    parts?.catch(() => undefined);
    const good = await judge({ report, signal });
    const endpoints = await parts;
    if (!good) process.exitCode = 1;
    else if (tests.length > 0) process.exitCode = await runTests(tests, endpoints, signal);
    for (const line of leftOut) report(`left to npm test: ${line}`);
  },
});

function report(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** What tests of a ledger in Spanner run on, if they run; their environment tells them. */
async function chooseSpanner(): Promise<void> {
  const { spanner, because } = await chooseTestSpanner(findSpannerEmulator());
  process.env[spannerVariable] = spanner;
  if (spanner === 'none') report(`left out, all that needs Spanner: ${because}`);
}

type Chosen = { tests: string[]; needParts: boolean; leftOut: string[] };

/** The files of the tests to run, after a line for each project, and what is left to `npm test`. */
function chooseTests(changed: readonly string[]): Chosen {
  if (changed.length === 0) report('nothing changed: no tests to run');
  const { changed: own, dependent, ofNoProject, onParts } = affectedTests(changed);
  const tests: string[] = [];
  const leftOut = ['the promises end to end'];
  for (const { project, tests: files } of [...own, ...dependent]) {
    if (project === promises) continue;
    if (project === inSpanner && process.env[spannerVariable] === 'none') continue;
    const why = own.some((each) => each.project === project) ? 'changed' : 'reaches what changed';
    report(`tests of ${project}, which ${why}: ${files.length}`);
    tests.push(...files);
  }
  if (ofNoProject.length > 0) leftOut.push(`whatever rests on ${ofNoProject.join(', ')}`);
  return { tests, needParts: tests.some((each) => onParts.has(each)), leftOut };
}

/** What the tests run on, as it was left by the last run or started now; the file that names it. */
async function startParts(signal: AbortSignal): Promise<string> {
  const { parts } = await chooseTestParts();
  const home = sharedTestHome;
  if (parts === 'native') await bringUpParts({ home, report, signal });
  // They go when this process has ended, however it ends.
  else writeJson(createHome(home).endpoints, await testEndpoints());
  return homeAt(home).endpoints;
}

function runTests(
  files: readonly string[],
  endpoints: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  const runner = join(cloneFolder, 'infra', 'test-runner', 'main.ts');
  const child = spawn(process.execPath, [runner, ...files], {
    cwd: cloneFolder,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ...(endpoints && { TRIPLOCK_TEST_ENDPOINTS: endpoints }) },
  });
  signal.addEventListener('abort', () => child.kill('SIGINT'));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, end) => resolve(code ?? 128 + constants.signals[end!]));
  });
}

/** @throws LauncherError where git does not answer. */
function changes(since: string | undefined): string[] {
  try {
    return changedFiles(cloneFolder, since);
  } catch (error) {
    if (error instanceof GitError) throw new LauncherError(error.message, { cause: error });
    throw error;
  }
}
