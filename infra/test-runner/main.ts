// Runs the tests of projects, as Nx asks for them or a person does:
//   node infra/test-runner/main.ts FILE…
//   node infra/test-runner/main.ts --plan   (a Plan on stdin; the outcome goes to the parent)
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { type FileEnd, isRed, runFiles, type TestFile } from './pool.ts';
import { renderEnd, renderFile, repeat, whyRed } from './render.ts';
import { inOrder } from './order.ts';

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
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => interrupt.abort(new Error(`ended by ${signal}`)));
process.once('disconnect', () => interrupt.abort(new Error('nobody waits for it any more')));

const words = process.argv.slice(2);
const plan = words[0] === '--plan' ? (JSON.parse(await text(process.stdin)) as Plan) : undefined;
const files = plan === undefined ? named(words) : plan.tasks.flatMap(filesOf);

const seed = Number(process.env['TRIPLOCK_TEST_SEED'] ?? Number.NaN);
const durations = readDurations();
const ends: FileEnd[] = [];
const began = performance.now();
try {
  await runFiles(inOrder(files, { durations, ...(Number.isInteger(seed) && { seed }) }), {
    root,
    atOnce: Number(process.env['TRIPLOCK_TEST_PROCESSES'] ?? 3),
    signal: interrupt.signal,
    ended: (file) => {
      ends.push(file);
      durations[file.path] = Math.round(file.ms);
      print(renderFile(file));
    },
  });
} catch (error) {
  if (!interrupt.signal.aborted) throw error;
  print([`tests: ${(error as Error).message}`]);
  process.exitCode = 130;
}
writeDurations();
print(renderEnd(ends, { ms: performance.now() - began, of: files.length }));
if (ends.some(isRed) || ends.length < files.length) process.exitCode ||= 1;
writeOutcome();
if (plan !== undefined) process.send?.(outcomeOf(plan));
process.disconnect?.();

function named(paths: readonly string[]): TestFile[] {
  return paths.map((path) => ({ path: relative(root, resolve(path)) }));
}

function filesOf({ root: folder, options }: Plan['tasks'][number]): TestFile[] {
  const { files: globs = ['**/*.test.ts'], lane } = options;
  const exclude = ['**/node_modules/**'];
  const paths = globSync([...globs], { cwd: join(root, folder), exclude });
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
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return {};
  }
}

/** For programs, where they asked for it. */
function writeOutcome(): void {
  const file = process.env['TRIPLOCK_TEST_OUTCOME'];
  if (!file) return;
  const red = ends
    .filter(isRed)
    .map((end) => ({ file: end.path, why: whyRed(end), again: repeat(end) }));
  writeFileSync(file, `${JSON.stringify({ files: ends.length, red }, undefined, 2)}\n`);
}

function writeDurations(): void {
  mkdirSync(dirname(durationsFile), { recursive: true });
  writeFileSync(durationsFile, `${JSON.stringify(durations, undefined, 2)}\n`);
}
