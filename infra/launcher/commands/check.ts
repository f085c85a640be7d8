import { join } from 'node:path';
import { affectedTests, changedFiles, GitError, judge } from '@triplock/lint';
import { CommandError } from '@triplock/command';
import { cloneFolder } from '../home.ts';
import { runCommand } from './run-command.ts';
import { chooseStoreParts, runToEnd, startTestParts } from './test-run.ts';

const help = `
npm run check -- [options]

The short one before a commit. Judges rules, types and format of every file that is not known to be
good: of what changed, and of whatever reaches that by its imports. Then it runs the tests of what
changed since the branch left the default branch, committed or not, new files too; on the default
branch itself, since what its remote has. These are all tests of a project with a change, and of the
projects that depend on it those that reach the change. What they run on stays up for the next check,
with its data in memory where Linux has room: npm run down -- --home .triplock/test --volumes ends it
and gives that back.

The promises end to end (e2e) are left to npm test.

  --since REV  what changed since then; HEAD: what is not committed
  --help
`;

/** Projects whose tests are promises, each of which brings up a whole system. */
const promises = /[/-]e2e$/;

await runCommand({
  name: 'check',
  help,
  options: { since: { type: 'string' } },
  run: async ({ values, interrupted }) => {
    const signal = interrupted();
    const without = await chooseStoreParts(report);
    const { tests, needParts, leftOut } = chooseTests(changes(values.since), without);
    const parts = needParts ? startTestParts({ report, signal }) : undefined;
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

type Chosen = { tests: string[]; needParts: boolean; leftOut: string[] };

/** The files of the tests to run, after a line for each project, and what is left to `npm test`. */
function chooseTests(changed: readonly string[], without: readonly string[]): Chosen {
  if (changed.length === 0) report('nothing changed: no tests to run');
  const { changed: own, dependent, ofNoProject, onParts } = affectedTests(changed);
  const tests: string[] = [];
  const leftOut = ['the promises end to end'];
  for (const { project, tests: files } of [...own, ...dependent]) {
    if (promises.test(project) || without.includes(project)) continue;
    const why = own.some((each) => each.project === project) ? 'changed' : 'reaches what changed';
    report(`tests of ${project}, which ${why}: ${files.length}`);
    tests.push(...files);
  }
  if (ofNoProject.length > 0) leftOut.push(`whatever rests on ${ofNoProject.join(', ')}`);
  return { tests, needParts: tests.some((each) => onParts.has(each)), leftOut };
}

function runTests(
  files: readonly string[],
  endpoints: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  const runner = join(cloneFolder, 'infra', 'test-runner', 'main.ts');
  const env = { ...(endpoints !== undefined && { TRIPLOCK_TEST_ENDPOINTS: endpoints }) };
  return runToEnd([runner, ...files], { env, signal });
}

/** @throws CommandError where git does not answer. */
function changes(since: string | undefined): string[] {
  try {
    return changedFiles(cloneFolder, since);
  } catch (error) {
    if (error instanceof GitError) throw new CommandError(error.message, { cause: error });
    throw error;
  }
}
