import { type ChildProcess, fork } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { getPriority, setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import type { TestEnd, WorkerEvent, WorkerRequest } from './events.ts';
import { endFamily } from './processes.ts';

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
  /** Whether it asks for some of its tests alone, by which `node:test` leaves out the others. */
  onlySome: boolean;
  /** What it printed. */
  printed: string;
};

type Pool = {
  root: string;
  /** How many processes run files of no lane, beside one for each lane. */
  atOnce: number;
  /** How long a file may take, and each test in it. */
  testMs: number;
  /** How long a worker waits for what a file left to be gone. */
  goneMs: number;
  /** Told at once, in the order in which files end. */
  ended: (file: FileEnd) => void;
  signal: AbortSignal;
};

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
  const free = lanes.get(undefined) ?? [];
  lanes.delete(undefined);
  const runLane = async (queue: TestFile[]) => {
    // A lane is one file after the other, and what it runs on is shared by nobody else: when it is
    // late the run is, while the others find another file to run whenever the machine has room.
    const yields = queue === free && lanes.size > 0;
    let worker: Worker | undefined;
    try {
      for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
        pool.signal.throwIfAborted();
        const { alone, onlySome } = wishesOf(join(pool.root, file.path));
        if (alone) await worker?.end();
        if (alone || worker === undefined) worker = startWorker(pool, { yields });
        const end = { ...(await worker.run(file.path)), onlySome };
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
export function isRed({ tests, leftBehind, died, onlySome }: FileEnd): boolean {
  const failed = tests.some(({ outcome }) => outcome === 'failed');
  return failed || leftBehind.length > 0 || died !== undefined || onlySome || tests.length === 0;
}

/** What a file says of how it is to be run. */
function wishesOf(file: string): { alone: boolean; onlySome: boolean } {
  const text = readFileSync(file, 'utf8');
  return {
    alone: /^\/\/ In a process of its own: \S/m.test(text),
    onlySome: onlyForms.some((form) => form.test(text)),
  };
}

/** As a statement begins, or the line of its options: nowhere in what a test writes for others. */
const onlyForms = [
  /^[ \t]*(?:test|it|suite|describe)(?:\.only\(|\([^\n]*\bonly: true)/m,
  /^[ \t]*\{ only: true\b/m,
];

type Ran = Omit<FileEnd, 'onlySome'>;
type Worker = { run(path: string): Promise<Ran>; end(): Promise<void> };

/** A third of the others' share where all have work. */
const behindOthers = 5;

function startWorker(
  { root, signal, testMs, goneMs }: Pool,
  { yields }: { yields: boolean },
): Worker {
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
      `--test-timeout=${testMs}`,
    ],
    env: environment(temporary),
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  // Before it has started anything, which inherits it.
  if (yields && child.pid !== undefined) yieldToOthers(child.pid);
  for (const stream of [child.stdout!, child.stderr!]) stream.setEncoding('utf8').resume();
  const exit = new Promise<string>((resolve) => {
    child.once('exit', (code, by) => resolve(by === null ? `exit code ${code}` : by));
    child.once('error', ({ message }) => resolve(message));
  });
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const stop = () => endWorker(child, temporary);
  const end = async () => {
    stop();
    await exit;
    // What is killed may be at work there for another moment.
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  signal.addEventListener('abort', stop, { once: true });
  void exit.then(() => signal.removeEventListener('abort', stop));
  const run = (path: string) =>
    runIn(
      { child, exit, closed, stop },
      { path, file: join(root, path), silentMs: testMs + 2 * goneMs },
    );
  return { run, end };
}

function yieldToOthers(pid: number): void {
  try {
    setPriority(pid, Math.max(behindOthers, getPriority()));
  } catch (error) {
    // It has ended already, which its exit tells.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SYSTEM_ERROR') throw error;
  }
}

/** What a worker is given: nobody's colours, and a temporary folder of its own. */
function environment(temporary: string): NodeJS.ProcessEnv {
  // Nx asks for colours even where nobody sees them; tests judge what a command prints without.
  const { FORCE_COLOR: _, NODE_TEST_CONTEXT: __, ...env } = process.env;
  return { ...env, TMPDIR: temporary };
}

type Over = Pick<FileEnd, 'leftBehind' | 'cpuSeconds'>;
const nothing: Over = { leftBehind: [], cpuSeconds: 0 };

type Running = {
  child: ChildProcess;
  exit: Promise<string>;
  /** Nothing that it told or printed is on its way any more. */
  closed: Promise<void>;
  stop: () => void;
};
type Asked = {
  path: string;
  file: string;
  /**
   * Longer than a worker is silent by itself, which also looks for what a file left: then it hangs
   * in a loop, where no limit of its own is heard, or while it loads the file.
   */
  silentMs: number;
};

/** Has one file run, and tells what came of it, also when the process ends meanwhile. */
async function runIn(
  { child, exit, closed, stop }: Running,
  { path, file, silentMs }: Asked,
): Promise<Ran> {
  const began = performance.now();
  const tests: TestEnd[] = [];
  const figures: string[] = [];
  const printed = openTail();
  const streams = [child.stdout!, child.stderr!];
  const { promise: over, resolve: isOver } = Promise.withResolvers<Over>();
  const watchdog = openWatchdog(silentMs, stop);
  const listen = (event: WorkerEvent) => {
    watchdog.heard();
    if (event.is === 'test') tests.push(event.test);
    if (event.is === 'figure') figures.push(event.text);
    if (event.is === 'file') isOver(event);
  };
  for (const stream of streams) stream.on('data', printed.add);
  child.on('message', listen);
  child.send({ run: file } satisfies WorkerRequest, (error) => {
    // It has ended, and its exit says how.
    if (error !== null) isOver(nothing);
  });
  const died = await Promise.race([over.then(() => undefined), exit]);
  // What it told and printed before that may still be on its way.
  if (died === undefined) await nextTurn();
  else {
    // A child that the file left has the same pipes.
    stop();
    await atMost(drainMs, closed);
  }
  child.off('message', listen);
  for (const stream of streams) stream.off('data', printed.add);
  const { leftBehind, cpuSeconds } = died === undefined ? await over : nothing;
  const why = watchdog.end() ?? died;
  return {
    path,
    ms: performance.now() - began,
    cpuSeconds,
    tests,
    figures,
    leftBehind,
    printed: printed.text(),
    ...(why !== undefined && { died: why }),
  };
}

/** Where there is no /proc a child that the file left goes on, and keeps the pipes open. */
const drainMs = 1_000;

async function atMost(ms: number, what: Promise<void>): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  await Promise.race([what, delay(ms, undefined, { signal })]).finally(() => over.abort());
}

/** Ends what is silent for too long; says so at its end. */
function openWatchdog(silentMs: number, bite: () => void) {
  let why: string | undefined;
  const timer = setTimeout(() => {
    why = `it was not heard of for ${silentMs / 1_000} s and was killed`;
    bite();
  }, silentMs);
  return {
    heard: () => void timer.refresh(),
    end: () => {
      clearTimeout(timer);
      return why;
    },
  };
}

const tailMax = 256 * 1024;

/** The end of what is printed, of which there may be any amount. */
function openTail() {
  let text = '';
  let isCut = false;
  return {
    add: (piece: string) => {
      text += piece;
      if (text.length <= 2 * tailMax) return;
      text = text.slice(-tailMax);
      isCut = true;
    },
    text: () => (isCut ? `… ${text.slice(-tailMax)}` : text),
  };
}

/** Ends a worker, if it lives, with what its files left running. */
function endWorker(child: ChildProcess, temporary: string): void {
  // Never started.
  if (child.pid === undefined) return;
  const isGone = child.exitCode !== null || child.signalCode !== null;
  // Its number may be another's by then.
  endFamily(isGone ? undefined : child.pid, temporary);
  if (!isGone) child.kill('SIGKILL');
}
