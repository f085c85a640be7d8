// Runs the tests of projects, as Nx asks for them or a person does:
//   node infra/test-runner/main.ts FILE…
//   node infra/test-runner/main.ts --plan   (a Plan on stdin; the outcome goes to the parent)
import {
  globSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { constants } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { inspect } from 'node:util';
import { type FileEnd, isRed, runFiles, type TestFile } from './pool.ts';
import { renderEnd, renderFile, repeat, whyRed } from './render.ts';
import { inOrder } from './order.ts';
import { settingsIn, UsageError } from './settings.ts';

/** What Nx asks for: projects that are due, each with the options of its target. */
export type Plan = {
  tasks: readonly { id: string; root: string; options: TargetOptions }[];
};

/** What a project says of its tests in package.json; executors.schema.json says it to people. */
export type TargetOptions = {
  files?: readonly string[];
  lane?: string;
};

/** What became of each task, by its id. */
export type Outcome = Readonly<Record<string, { ok: boolean; text: string }>>;

const root = resolve(import.meta.dirname, '../..');
const durationsFile = join(root, '.nx', 'test-durations.json');

const interrupt = new AbortController();
// A Ctrl-C comes from the terminal and again from whoever started this: the second changes nothing,
// since what it would end is ending.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (!interrupt.signal.aborted) process.exitCode = 128 + constants.signals[signal];
    interrupt.abort(new Error(`ended by ${signal}`));
  });
}
process.once('disconnect', () => interrupt.abort(new Error('nobody waits for it any more')));
process.stdout.on('error', () => interrupt.abort(new Error('nobody reads it any more')));

const ends: FileEnd[] = [];
try {
  await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`tests: ${error.message}\n`);
  process.exitCode = 1;
}
process.disconnect?.();

async function main(): Promise<void> {
  const words = process.argv.slice(2);
  const plan = words[0] === '--plan' ? (JSON.parse(await text(process.stdin)) as Plan) : undefined;
  const { seed, outcome, ...limits } = settingsIn(process.env);
  const files = plan === undefined ? named(words) : plan.tasks.flatMap(filesOf);
  const writeOutcome = outcome === undefined ? () => undefined : openOutcome(outcome);
  const durations = readDurations();
  const began = performance.now();
  try {
    await runFiles(inOrder(files, { durations, ...(seed !== undefined && { seed }) }), {
      root,
      ...limits,
      signal: interrupt.signal,
      ended: (file) => {
        ends.push(file);
        durations[file.path] = Math.round(file.ms);
        print(renderFile(file));
      },
    });
  } catch (error) {
    const { aborted } = interrupt.signal;
    // What the system refuses, such as a full disk, needs no place in the code.
    const isPlain = aborted || codeOf(error) !== undefined;
    print([`tests: ${isPlain ? (error as Error).message : inspect(error)}`]);
    process.exitCode ||= 1;
  }
  print(renderEnd(ends, { ms: performance.now() - began, of: files.length }));
  if (ends.some(isRed) || ends.length < files.length) process.exitCode ||= 1;
  if (plan !== undefined) process.send?.(outcomeOf(plan));
  writeOutcome();
  writeDurations(durations);
}

/** @throws UsageError for what is no file. */
function named(paths: readonly string[]): TestFile[] {
  if (paths.length === 0) throw new UsageError('name the files to run, or give --plan');
  for (const path of paths) {
    const isFile = statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
    if (!isFile) throw new UsageError(`there is no file ${path}`);
  }
  const own = new Set(paths.map((path) => relative(root, resolve(path))));
  return [...own].map((path) => ({ path }));
}

/** @throws UsageError where a project names files and has none of them. */
function filesOf({ id, root: folder, options }: Plan['tasks'][number]): TestFile[] {
  const { files: globs = ['**/*.test.ts'], lane } = options;
  const cwd = join(root, folder);
  const notOurs = ['**/node_modules/**'];
  // A project within this one has its own task.
  const within = globSync('*/**/package.json', { cwd, exclude: notOurs }).map(dirname);
  const exclude = [...notOurs, ...within.map((each) => `${each}/**`)];
  const paths = globSync([...globs], { cwd, exclude });
  if (paths.length === 0 && options.files !== undefined) {
    throw new UsageError(`${id} has no file ${globs.join(' ')} in ${folder}`);
  }
  return paths.map((path) => ({
    path: join(folder, path),
    ...(lane !== undefined && { lane }),
  }));
}

function outcomeOf({ tasks }: Plan): Outcome {
  const byPath = new Map(ends.map((end) => [end.path, end]));
  return Object.fromEntries(
    tasks.map((task) => {
      const own = filesOf(task).map(({ path }) => byPath.get(path));
      const ok = own.every((end) => end !== undefined && !isRed(end));
      const lines = own.flatMap((end) => (end === undefined ? [] : renderFile(end)));
      return [task.id, { ok, text: `${lines.join('\n')}\n` }];
    }),
  );
}

function print(lines: readonly string[]): void {
  process.stdout.write(lines.map((line) => `${line}\n`).join(''));
}

/** How long files took when they last ran here. */
function readDurations(): Record<string, number> {
  try {
    return JSON.parse(readFileSync(durationsFile, 'utf8')) as Record<string, number>;
  } catch (error) {
    // A machine that lost power may leave half of it.
    if (error instanceof SyntaxError || codeOf(error) === 'ENOENT') return {};
    throw error;
  }
}

/** In one step, as another run of this clone may read it. It is no matter whose is the last. */
function writeDurations(durations: Readonly<Record<string, number>>): void {
  const next = `${durationsFile}.${process.pid}`;
  try {
    mkdirSync(dirname(durationsFile), { recursive: true });
    writeFileSync(next, `${JSON.stringify(durations, undefined, 2)}\n`);
    renameSync(next, durationsFile);
  } catch (error) {
    // The next run begins with other files: nothing that this one has to say is less true.
    print([`tests: how long each file took is not kept: ${(error as Error).message}`]);
    rmSync(next, { force: true });
  }
}

/**
 * Has what became of the tests written for programs, at the end. What an earlier run wrote there is
 * gone at once, so that nobody takes it for this one's.
 *
 * @throws UsageError, before any test has run, where that cannot be written.
 */
function openOutcome(file: string): () => void {
  const next = `${file}.${process.pid}`;
  try {
    writeFileSync(next, '');
    const before = lstatSync(file, { throwIfNoEntry: false });
    if (before !== undefined && !before.isFile()) throw new Error(`${file} is no file`);
    rmSync(file, { force: true });
  } catch (error) {
    rmSync(next, { force: true });
    throw new UsageError(`the outcome cannot be written: ${(error as Error).message}`);
  }
  return () => {
    const red = ends
      .filter(isRed)
      .map((end) => ({ file: end.path, why: whyRed(end), again: repeat(end) }));
    writeFileSync(next, `${JSON.stringify({ files: ends.length, red }, undefined, 2)}\n`);
    renameSync(next, file);
  };
}

function codeOf(error: unknown): unknown {
  return (error as NodeJS.ErrnoException).code;
}
