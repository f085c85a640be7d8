import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { bringUp, takeDown } from '@triplock/launcher';
import type { Terminal } from '@triplock/command';
import { runIn } from './scratch-clone.ts';

const root = resolve(import.meta.dirname, '../..');

/** What `npm test` writes of a run when it is told where. */
type TestOutcome = {
  files: number;
  red: readonly { file: string; why: readonly string[]; again: string }[];
};

/** A run of all tests, and what was red in it. */
export type GateRun = { seed: number; beside: string; seconds: number } & (
  | { outcome: 'green' }
  | { outcome: 'red'; red: TestOutcome['red'] }
  | { outcome: 'broken'; why: string }
);

/** What `--json` prints. */
export type ProvenGate = { ok: boolean; seconds: number; runs: readonly GateRun[] };

type Invocation = { terminal: Terminal; signal: AbortSignal };

/**
 * Runs every test so many times, each time in another order, which its seed gives again: beside two
 * busy loops, and the last time beside a second system of this machine. A red run does not end it.
 */
export async function proveGate(
  { times, seed }: { times: number; seed: number },
  { terminal, signal }: Invocation,
): Promise<ProvenGate> {
  const began = performance.now();
  const runs: GateRun[] = [];
  for (let n = 1; n <= times; n += 1) {
    const isLast = n === times && times > 1;
    const beside = isLast ? 'a second system' : 'two busy loops';
    const note = (line: string) => terminal.note(`${n} of ${times}: ${line}`);
    note(`all tests beside ${beside}, seed ${seed + n - 1}`);
    const run = await withNeighbour(isLast ? secondSystem : busyLoops, signal, () =>
      runTests({ seed: seed + n - 1, beside }, { note, signal }),
    );
    renderRun(run).forEach(note);
    runs.push(run);
  }
  const seconds = Math.round((performance.now() - began) / 1_000);
  return { ok: runs.every(({ outcome }) => outcome === 'green'), seconds, runs };
}

/** A line for a run, and one for each file that was red in it. */
function renderRun(run: GateRun): string[] {
  const head = `${run.outcome} beside ${run.beside}, seed ${run.seed}, in ${run.seconds} s`;
  switch (run.outcome) {
    case 'green':
      return [head];
    case 'red':
      return [head, ...run.red.map(({ file, why }) => `  ${file}: ${why.join('; ')}`)];
    case 'broken':
      return [head, run.why];
    default:
      return run satisfies never;
  }
}

type Neighbour = (signal: AbortSignal) => Promise<{ end(): Promise<void> }>;

async function withNeighbour<Result>(
  start: Neighbour,
  signal: AbortSignal,
  work: () => Promise<Result>,
): Promise<Result> {
  const neighbour = await start(signal);
  try {
    return await work();
  } finally {
    await neighbour.end();
  }
}

/** Two processes that take all of the machine that they get, and end with this one. */
const busyLoops: Neighbour = async () => {
  const loop = `for (;;) if (process.ppid !== ${process.pid}) process.exit();`;
  const loops = [1, 2].map(() => spawn(process.execPath, ['-e', loop], { stdio: 'ignore' }));
  return { end: async () => void (await Promise.all(loops.map(endProcess))) };
};

function endProcess(child: ChildProcess): Promise<void> {
  return new Promise((ended) => {
    child.once('exit', () => ended());
    child.kill('SIGKILL');
  });
}

/** Another system of this clone, in a home of its own, which nobody asks for anything. */
const secondSystem: Neighbour = async (signal) => {
  const home = join(root, '.triplock', 'beside-gate');
  await takeDown({ home, data: 'forget' });
  await bringUp({ home, replicas: 2, signal });
  return {
    end: async () => {
      await takeDown({ home, data: 'forget' });
      rmSync(home, { recursive: true, force: true });
    },
  };
};

/** The line with which the runner of tests tells how a file ended. */
const endOfFile = /^[✔✖] /;

async function runTests(
  { seed, beside }: { seed: number; beside: string },
  { note, signal }: { note: (line: string) => void; signal: AbortSignal },
): Promise<GateRun> {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-gate-'));
  const file = join(folder, 'outcome.json');
  const began = performance.now();
  const test = ['infra/launcher/triplock.mjs', 'test', '--again', '--only', 'tests'];
  const words = [process.execPath, ...test, '--seed', `${seed}`, '--outcome', file];
  try {
    // Its exit code is 1 when something is red, which the file tells in detail.
    const tell = (line: string) => void (endOfFile.test(line) && note(line));
    const failed = await runIn(root, words, signal, { heard: tell }).then(
      () => undefined,
      (error: Error) => error.message,
    );
    signal.throwIfAborted();
    const seconds = Math.round((performance.now() - began) / 1_000);
    const told = readOutcome(file);
    const run = { seed, beside, seconds };
    if (told === undefined) return { ...run, outcome: 'broken', why: failed ?? 'it ran no test' };
    if (told.red.length > 0) return { ...run, outcome: 'red', red: told.red };
    if (failed !== undefined) return { ...run, outcome: 'broken', why: failed };
    return { ...run, outcome: 'green' };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What the run has written; nothing where it did not come to its end. */
function readOutcome(file: string): TestOutcome | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as TestOutcome;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
