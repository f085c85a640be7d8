import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { cloneFolder, defaultHome, homeAt } from '../home.ts';
import { withDescendants } from '../processes/identity.ts';
import { signalProcess } from '../processes/stop.ts';
import { readState } from '../session.ts';

/** What can be asked for: a scenario as it is or without a guard, or load. */
export type Order =
  | { run: 'scenario'; scenario: string; without?: string }
  | { run: 'load'; ratePerSecond: number; seconds: number; duplicatesPercent: number };

/** A line of a story: what a command tells, or says beside it, such as what it waits for. */
export type StoryLine = { at: string; kind: 'told' | 'aside'; text: string };

/** What was asked for, and how far it is. */
export type Job = {
  id: number;
  order: Order;
  /** As one would type it. */
  command: string;
  startedAt: string;
  /**
   * `done`: what was to be seen was seen. `failed`: it was not, or the command could not do it; its
   * last lines say which.
   */
  state: 'running' | 'cancelling' | 'done' | 'failed' | 'cancelled';
  endedAt?: string;
  story: StoryLine[];
};

/** What becomes known of jobs: the whole of one when its state changes, or one more line of it. */
export type JobNews = { job: Job | null } | { line: StoryLine };

/** What came of asking to begin something; `by`: what is under way instead. */
type Begun<Outcome> = Outcome | { outcome: 'busy'; by: string };

/** One job at a time, each a command of this clone on one home. */
export type Jobs = {
  /** Busy with another job, and for a scenario, which breaks processes, with an act on one. */
  begin(order: Order): Begun<{ outcome: 'begun'; job: Job }>;
  /**
   * Has the home's processes for one act until it is released: meanwhile no other act has them, nor
   * a scenario. Asking and having is one step.
   */
  hold(act: string): Begun<{ outcome: 'held'; release(): void }>;
  /** What is under way, or was last. */
  last(): Job | undefined;
  /** As a Ctrl-C: the command puts right what it broke and ends. */
  cancel(id: number): 'cancelling' | 'nothing';
  /**
   * Runs another command beside it to its end, or breaks it off; with the end of what it said. A
   * program of the agent's own stands in a file, is no npm script, and has limits of its own.
   */
  runBeside(words: readonly string[], program?: string): Promise<{ code: number; said: string }>;
  listen(hear: (news: JobNews) => void): () => void;
  /** Breaks off whatever runs. Resolves when nothing of it is left. */
  end(): Promise<void>;
};

/** Far more than any command prints; what is older is forgotten. */
const storyLinesMax = 2_000;
/** Dropping the second system of a scenario without a guard takes longest. */
const cancelWithinMs = 50_000;
/** The console asks for two minutes; a process that did not start by then does not. */
const besideWithinMs = 100_000;
const saidCharactersMax = 8_000;
const ctrlC = 130;

/** Opens the jobs of a home. */
export function openJobs(home: string): Jobs {
  const listeners = new Set<(news: JobNews) => void>();
  const running = new Set<ChildProcess>();
  let job: Job | undefined;
  let child: ChildProcess | undefined;
  let held: string | undefined;
  let jobs = 0;

  const tell = (news: JobNews) => listeners.forEach((hear) => hear(news));
  const isUnderWay = () => job?.state === 'running' || job?.state === 'cancelling';

  function start(words: readonly string[], program?: string): ChildProcess {
    const started = spawnCommand([...words, '--home', home], program);
    running.add(started);
    started.once('close', () => running.delete(started));
    return started;
  }

  async function follow(mine: Job, command: ChildProcess): Promise<void> {
    readStory(command, (line) => {
      mine.story.push(line);
      if (mine.story.length > storyLinesMax) mine.story.shift();
      tell({ line });
    });
    mine.state = stateAfter(await ended(command), mine);
    mine.endedAt = now();
    tell({ job: mine });
  }

  function cancel(id: number): 'cancelling' | 'nothing' {
    if (job?.id !== id || child === undefined || !isUnderWay()) return 'nothing';
    if (job.state === 'running') {
      job.state = 'cancelling';
      tell({ job });
      void breakOff(home, child);
    }
    return 'cancelling';
  }

  return {
    begin(order) {
      if (job !== undefined && isUnderWay()) return { outcome: 'busy', by: job.command };
      if (held !== undefined && order.run === 'scenario') return { outcome: 'busy', by: held };
      const words = wordsOf(order);
      jobs += 1;
      const command = asTyped(words, home);
      job = { id: jobs, order, command, startedAt: now(), state: 'running', story: [] };
      tell({ job });
      child = start(words);
      void follow(job, child);
      return { outcome: 'begun', job };
    },
    hold(act) {
      const by = held ?? (job?.order.run === 'scenario' && isUnderWay() ? job.command : undefined);
      if (by !== undefined) return { outcome: 'busy', by };
      held = act;
      return { outcome: 'held', release: () => (held = undefined) };
    },
    last: () => job,
    cancel,
    runBeside: (words, program) =>
      toItsEnd(home, start(words, program), program === undefined ? besideWithinMs : undefined),
    listen(hear) {
      listeners.add(hear);
      return () => listeners.delete(hear);
    },
    async end() {
      await Promise.all([...running].map((each) => breakOff(home, each)));
    },
  };
}

const now = () => new Date().toISOString();

function stateAfter(code: number, { state }: Job): Job['state'] {
  if (code === 0) return 'done';
  return code === ctrlC || state === 'cancelling' ? 'cancelled' : 'failed';
}

function asTyped([name, ...rest]: readonly string[], home: string): string {
  const elsewhere = home === defaultHome ? [] : ['--home', `'${home}'`];
  return ['npm run', name, '--', ...rest, ...elsewhere].join(' ');
}

function readStory({ stdout, stderr }: ChildProcess, hear: (line: StoryLine) => void): void {
  const read = (input: Readable, kind: StoryLine['kind']) =>
    createInterface({ input }).on('line', (text) =>
      hear({ at: now(), kind, text: stripVTControlCharacters(text) }),
    );
  read(stdout!, 'told');
  read(stderr!, 'aside');
}

/** The command for an order, as its words behind `npm run`. */
function wordsOf(order: Order): string[] {
  switch (order.run) {
    case 'scenario': {
      const { scenario, without } = order;
      return ['scenario', scenario, ...(without === undefined ? [] : ['--without', without])];
    }
    case 'load': {
      const { ratePerSecond: rate, seconds, duplicatesPercent: duplicates } = order;
      const options = Object.entries({ rate, seconds, duplicates });
      return [
        'load',
        'duplicates',
        ...options.flatMap(([name, value]) => [`--${name}`, `${value}`]),
      ];
    }
    default:
      return order satisfies never;
  }
}

const launcher = join(cloneFolder, 'infra/launcher/triplock.mjs');
const follower = join(cloneFolder, 'infra/launcher/follow-launcher.mjs');

/** One of the npm scripts. When this process is killed it ends too, as after a Ctrl-C. */
function spawnCommand(words: readonly string[], program = launcher): ChildProcess {
  const { AGENT_TOKEN: _, ...env } = process.env;
  return spawn(process.execPath, ['--import', follower, program, ...words], {
    cwd: cloneFolder,
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
}

/** Breaks a command off that does not end by itself in time, if it has any. */
async function toItsEnd(home: string, command: ChildProcess, withinMs?: number) {
  let said = '';
  for (const stream of [command.stdout!, command.stderr!]) {
    const hear = (text: string) => (said = (said + text).slice(-saidCharactersMax));
    stream.setEncoding('utf8').on('data', hear);
  }
  const late =
    withinMs === undefined ? undefined : setTimeout(() => void breakOff(home, command), withinMs);
  return { code: await ended(command).finally(() => clearTimeout(late)), said };
}

/** Its exit code when all that it printed is here; 1 when it was killed or could not start. */
async function ended(command: ChildProcess): Promise<number> {
  try {
    const [code] = (await once(command, 'close')) as [number | null];
    return code ?? 1;
  } catch {
    return 1;
  }
}

/** Asks a command to end, and makes it when it takes too long. */
async function breakOff(home: string, command: ChildProcess): Promise<void> {
  const { pid, exitCode, signalCode } = command;
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  const gone = once(command, 'close');
  command.kill('SIGINT');
  const late = setTimeout(() => {
    for (const each of startedFor(home, pid)) signalProcess(each, 'SIGKILL');
  }, cancelWithinMs);
  await gone.finally(() => clearTimeout(late));
}

/** The command and what it started for itself: a service that it started again is the home's. */
function startedFor(home: string, pid: number): number[] {
  const recorded = Object.values(readState(homeAt(home)).processes).map((each) => each.pid);
  const ofHome = new Set(withDescendants(recorded.filter((each) => each !== process.pid)));
  return withDescendants([pid]).filter((each) => !ofHome.has(each));
}
