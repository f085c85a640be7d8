import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { EndedRun } from '../bring-up.ts';
import { howEnded } from '../ends.ts';
import { homeAt } from '../home.ts';
import { isLocked } from '../lock.ts';
import { isSameProcess } from '../processes/identity.ts';
import { services } from '../service-table.ts';
import { serviceOf } from '../services.ts';
import { type ProcessRecord, readState, type Report, type Restarts } from '../session.ts';
import type { Jobs } from './jobs.ts';

/** What a watch works with. */
export type Watching = {
  home: string;
  /** In milliseconds since 1970. */
  now(): number;
  /** Throws when it did not get ready; what was started by then goes on, or has ended again. */
  startAgain(ended: EndedRun): Promise<'started' | 'not wanted'>;
  report: Report;
  signal: AbortSignal;
};

/** A watch over the services of a home. */
export type Watch = {
  /** Looks at all of them once, and starts again those whose pause is over, one after the other. */
  look(): Promise<void>;
};

const firstPauseMs = 1_000;
const pauseMsMax = 60_000;
/** Who was up for so long ended for another reason than the last time. */
const forgottenAfterMs = 5 * 60_000;

/**
 * How long a process waits to be started again that has been so many times, one after the other.
 */
export function pauseAfter(restartsInARow: number): number {
  return Math.min(pauseMsMax, firstPauseMs * 2 ** restartsInARow);
}

/** A run that is over, and after which pause its process is started again, if it is to be. */
type Over = { run: string; due: Due | undefined };
type Due = { sinceMs: number; pauseMs: number; tries: number; ended: EndedRun };

/**
 * Watches the services of a home. What ended by itself, also by a signal from elsewhere, is started
 * again after a pause that grows with each time. What was ended by order, or at a crash point,
 * stays dead, and so do the parts: what they keep may be what somebody has to look at first.
 *
 * It keeps nothing that matters but the pauses: which process ended and how often stands in the
 * home, and whoever starts it again makes sure, under the home's lock, that this is still so.
 */
export function watchServices(watching: Watching): Watch {
  const { home: folder, now, report, signal } = watching;
  const home = homeAt(folder);
  const known = new Map<string, Over>();

  function noticed(record: ProcessRecord, before: Restarts | undefined): Over {
    const { name, pid, startedAt } = record;
    const end = howEnded(home, record);
    if (end.by !== 'itself') return { run: runOf(record), due: undefined };
    const wasUpLong = now() - Date.parse(before?.lastAt ?? '') >= forgottenAfterMs;
    const inARow = before === undefined || wasUpLong ? 0 : before.inARow;
    const pauseMs = pauseAfter(inARow);
    const why = end.why === undefined ? 'its log does not say why' : end.why;
    const times = before === undefined ? '' : `, as ${often(before.count)} before`;
    report(`${name} ended by itself${times} (${why}): it is started again in ${inS(pauseMs)}`);
    const ended = { name, run: { pid, startedAt }, inARow, ...(end.why && { why: end.why }) };
    return { run: runOf(record), due: { sinceMs: now(), pauseMs, tries: 0, ended } };
  }

  async function tryAgain(over: Over): Promise<void> {
    const { due } = over;
    if (due === undefined || isPausing(due, now())) return;
    const { name, inARow } = due.ended;
    try {
      if ((await watching.startAgain(due.ended)) === 'started') report(`${name} runs again`);
      over.due = undefined;
    } catch (error) {
      if (signal.aborted) return;
      // Of no use where it ended again: that is another run, with a pause of its own.
      due.tries += 1;
      due.pauseMs = pauseAfter(inARow + due.tries);
      due.sinceMs = now();
      report(`${name} could not be started again: ${firstLineOf(error)}`);
    }
  }

  return {
    async look() {
      // A launcher that is at work ends and starts processes itself.
      if (isLocked(home.lock)) return;
      const { processes, ended = {}, restarts = {} } = readState(home);
      const gone = Object.values({ ...ended, ...processes }).filter(
        (record) => isWatched(record) && !isSameProcess(record),
      );
      const names = new Set(gone.map(({ name }) => name));
      for (const name of known.keys()) if (!names.has(name)) known.delete(name);
      for (const record of gone) {
        const { name } = record;
        if (known.get(name)?.run === runOf(record)) continue;
        known.set(name, noticed(record, restarts[name]));
      }
      for (const over of known.values()) {
        if (signal.aborted) return;
        await tryAgain(over);
      }
    },
  };
}

/** Not where the clock was set back meanwhile, or it would wait for hours. */
function isPausing({ sinceMs, pauseMs }: Due, nowMs: number): boolean {
  return nowMs >= sinceMs && nowMs < sinceMs + pauseMs;
}

const runOf = ({ pid, startedAt }: ProcessRecord) => `${pid}/${startedAt}`;

/** Not the agent, which is who watches, and no part. */
function isWatched({ name }: ProcessRecord): boolean {
  return services.some((each) => each.name === serviceOf(name));
}

const often = (count: number) => (count === 1 ? 'once' : `${count} times`);
const inS = (ms: number) => `${ms / 1_000} s`;

function firstLineOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n', 1)[0]!;
}

/** Elsewhere than on Linux a look runs `ps` for each process. */
const lookEveryMs = process.platform === 'linux' ? 1_000 : 5_000;
const startAgainProgram = join(import.meta.dirname, 'start-again.ts');

/** Watches the services of a home until the signal aborts; commands do what there is to do. */
export async function watchHome(
  { home, jobs }: { home: string; jobs: Jobs },
  signal: AbortSignal,
): Promise<void> {
  const report = (line: string) => console.log(line);
  const watch = watchServices({
    home,
    now: Date.now,
    startAgain: (ended) => startByCommand(jobs, ended),
    report,
    signal,
  });
  let failed = '';
  while (!signal.aborted) {
    try {
      await watch.look();
      failed = '';
    } catch (error) {
      // Such as at a home that is taken away: said once, and looked at again.
      const why = firstLineOf(error);
      if (why !== failed) report(`cannot look at the services of this home: ${why}`);
      failed = why;
    }
    await delay(lookEveryMs, undefined, { signal }).catch(() => undefined);
  }
}

async function startByCommand(
  jobs: Jobs,
  { name, run, inARow, why }: EndedRun,
): Promise<'started' | 'not wanted'> {
  const words = [name, String(run.pid), run.startedAt, String(inARow)];
  const given = why === undefined ? [] : [`--why=${why}`];
  const { code, said } = await jobs.runBeside([...words, ...given], startAgainProgram);
  const lines = said.trim().split('\n');
  if (code === 0) return lines.includes('not wanted') ? 'not wanted' : 'started';
  const beginning = 'triplock start-again: ';
  const refused = lines.find((line) => line.startsWith(beginning));
  throw new Error(refused?.slice(beginning.length) ?? lines.at(-1) ?? `exit code ${code}`);
}
