import { type ChildProcess, fork } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestEnd, WorkerEvent, WorkerRequest } from './events.ts';
import { familyOf } from './processes.ts';

/** A file to run, by its path in the workspace. Those of a lane run one after the other. */
export type TestFile = { path: string; lane?: string };

/** What became of a file. */
export type FileEnd = {
  path: string;
  ms: number;
  /** Of its process and of those that it started and that ended; nothing where nobody tells. */
  cpuSeconds: number;
  tests: readonly TestEnd[];
  /** What its tests counted. */
  figures: readonly string[];
  /** What it did not clean up, in words. */
  leftBehind: readonly string[];
  /** How the process ended in which it ran, if it ended meanwhile. */
  died?: string;
  /** What it printed. */
  printed: string;
};

type Pool = {
  root: string;
  /** How many processes run files of no lane, beside one for each lane. */
  atOnce: number;
  /** Told at once, in the order in which files end. */
  ended: (file: FileEnd) => void;
  signal: AbortSignal;
};

/** Above the longest real test on a busy machine, so that it only ever ends one that hangs. */
const testTimeoutMs = 600_000;

/**
 * Runs every file, in the order given, in as few processes as can be: each runs one after the other
 * and compiles once what they import. A file that says so (`// In a process of its own: …`) gets
 * one, and so does what comes after a file that failed, since that may have left anything behind.
 *
 * @throws what the signal was aborted with; nothing that the pool started is left then either.
 */
export async function runFiles(files: readonly TestFile[], pool: Pool): Promise<void> {
  const lanes = new Map<string | undefined, TestFile[]>();
  for (const file of files) lanes.set(file.lane, [...(lanes.get(file.lane) ?? []), file]);
  const runLane = async (queue: TestFile[]) => {
    let worker: Worker | undefined;
    try {
      for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
        pool.signal.throwIfAborted();
        const alone = wantsOwnProcess(join(pool.root, file.path));
        if (alone) await worker?.end();
        if (alone || worker === undefined) worker = startWorker(pool);
        const end = await worker.run(file.path);
        pool.signal.throwIfAborted();
        pool.ended(end);
        if (!alone && !isRed(end)) continue;
        await worker.end();
        worker = undefined;
      }
    } finally {
      await worker?.end();
    }
  };
  const free = lanes.get(undefined) ?? [];
  lanes.delete(undefined);
  const running = [...lanes.values()].map(async (queue) => {
    await runLane(queue);
    // What the lane had of the machine goes to the others.
    await runLane(free);
  });
  for (let n = 0; n < pool.atOnce; n += 1) running.push(runLane(free));
  const ends = await Promise.allSettled(running);
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

/** Whether something of a file is not as it was promised. */
export function isRed({ tests, leftBehind, died }: FileEnd): boolean {
  const failed = tests.some(({ outcome }) => outcome === 'failed');
  return failed || leftBehind.length > 0 || died !== undefined || tests.length === 0;
}

function wantsOwnProcess(file: string): boolean {
  return /^\/\/ In a process of its own: \S/m.test(readFileSync(file, 'utf8'));
}

type Worker = { run(path: string): Promise<FileEnd>; end(): Promise<void> };

function startWorker({ root, signal }: Pool): Worker {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-tests-'));
  const temporary = join(folder, 'tmp');
  mkdirSync(temporary);
  const child = fork(join(import.meta.dirname, 'worker.ts'), {
    cwd: root,
    execArgv: [
      // kafkajs computes a negative timer on newer Nodes; harmless, and only noise.
      '--disable-warning=TimeoutNegativeWarning',
      `--test-reporter=${join(import.meta.dirname, 'reporter.ts')}`,
      '--test-reporter-destination=stderr',
      `--test-timeout=${testTimeoutMs}`,
    ],
    env: environment(temporary),
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const exit = new Promise<string>((resolve) => {
    child.once('exit', (code, by) => resolve(by === null ? `exit code ${code}` : by));
  });
  const end = async () => {
    endFamily(child);
    await exit;
    rmSync(folder, { recursive: true, force: true });
  };
  const stop = () => endFamily(child);
  signal.addEventListener('abort', stop, { once: true });
  void exit.then(() => signal.removeEventListener('abort', stop));
  return { run: (path) => runIn(child, { path, file: join(root, path), exit }), end };
}

/** What a worker is given: nobody's colours, and a temporary folder of its own. */
function environment(temporary: string): NodeJS.ProcessEnv {
  // Nx asks for colours even where nobody sees them; tests judge what a command prints without.
  const { FORCE_COLOR: _, NODE_TEST_CONTEXT: __, ...env } = process.env;
  return { ...env, TMPDIR: temporary };
}

type Over = Pick<FileEnd, 'leftBehind' | 'cpuSeconds'>;
const nothing: Over = { leftBehind: [], cpuSeconds: 0 };

type Running = { path: string; file: string; exit: Promise<string> };

/** Has one file run, and tells what came of it, also when the process ends meanwhile. */
async function runIn(child: ChildProcess, { path, file, exit }: Running): Promise<FileEnd> {
  const began = performance.now();
  const tests: TestEnd[] = [];
  const figures: string[] = [];
  let printed = '';
  const hear = (text: Buffer) => void (printed += text.toString());
  child.stdout!.on('data', hear);
  child.stderr!.on('data', hear);
  const { promise: over, resolve: isOver } = Promise.withResolvers<Over>();
  const listen = (event: WorkerEvent) => {
    if (event.is === 'test') tests.push(event.test);
    if (event.is === 'figure') figures.push(event.text);
    if (event.is === 'file') isOver(event);
  };
  child.on('message', listen);
  child.send({ run: file } satisfies WorkerRequest, (error) => {
    // It has ended, and its exit says how.
    if (error !== null) isOver(nothing);
  });
  const died = await Promise.race([over.then(() => undefined), exit]);
  child.off('message', listen).stdout!.off('data', hear);
  child.stderr!.off('data', hear);
  const { leftBehind, cpuSeconds } = died === undefined ? await over : nothing;
  const ms = performance.now() - began;
  return {
    path,
    ms,
    cpuSeconds,
    tests,
    figures,
    leftBehind,
    printed,
    ...(died !== undefined && { died }),
  };
}

/** Ends a worker with what its files left running. */
function endFamily(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  for (const pid of familyOf(child.pid)) endProcess(pid);
  child.kill('SIGKILL');
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // It ended by itself meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
