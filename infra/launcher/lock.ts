import { randomUUID } from 'node:crypto';
import { linkSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isSameProcess, startTimeOf } from './processes/identity.ts';
import type { Report } from './session.ts';

/** A process that holds something. */
export type Owner = { pid: number; startedAt: string };

export function thisProcess(): Owner {
  return { pid: process.pid, startedAt: startTimeOf(process.pid) ?? '' };
}

/**
 * Runs `work` while no other launcher holds the lock file; waits for a live owner and takes over
 * from a dead one. What is left of it says that nobody holds it, unless `leavesNothing`.
 */
export async function withLock<Result>(
  file: string,
  waiting: { report: Report; signal: AbortSignal; leavesNothing?: () => boolean },
  work: () => Promise<Result>,
): Promise<Result> {
  let reported = false;
  for (;;) {
    const taken = take<Lock>(file, thisProcess(), isHeld);
    if (taken.outcome === 'ours') {
      try {
        return await work();
      } finally {
        // Who waits finds it gone, and makes it anew.
        if (waiting.leavesNothing?.()) rmSync(taken.name, { force: true });
        else rewrite<Lock>(taken.name, null);
      }
    }
    const { pid } = taken.holder!;
    if (!reported && pid !== process.pid) {
      waiting.report(`waiting for another launcher (pid ${pid}) to finish`);
    }
    reported = true;
    await delay(200, undefined, { signal: waiting.signal });
  }
}

/** Who holds it; nobody once it was released. */
type Lock = Owner | null;

const isHeld = (lock: Lock) => lock !== null && isSameProcess(lock);

/** Whether a launcher holds the lock file now. */
export function isLocked(file: string): boolean {
  for (;;) {
    const last = highest(file);
    if (last === 0) return false;
    const text = ifThere(() => readFileSync(`${file}.${last}`, 'utf8'));
    // Followed meanwhile.
    if (text !== undefined) return isHeld(JSON.parse(text) as Lock);
  }
}

/**
 * Takes what the files `<file>.<n>` are about: the one with the highest n says who has it. Nobody
 * removes it but who has it; it is followed by n + 1, which is linked and so made by one alone: a
 * process that was killed at any line leaves a file behind whose owner is dead, and it is no matter
 * who follows it. A file that is removed because its owner looked dead may be another's by then.
 */
export function take<Holder>(
  file: string,
  mine: Holder,
  isTaken: (holder: Holder) => boolean,
): { outcome: 'ours'; name: string } | { outcome: 'taken'; holder: Holder } {
  for (;;) {
    const last = highest(file);
    if (last > 0) {
      const text = ifThere(() => readFileSync(`${file}.${last}`, 'utf8'));
      // Followed meanwhile, and removed by whoever follows.
      if (text === undefined) continue;
      const holder = JSON.parse(text) as Holder;
      if (isTaken(holder)) return { outcome: 'taken', holder };
    }
    const name = `${file}.${last + 1}`;
    if (!linkNew(name, mine)) continue;
    // One that was followed and removed between our look and our link would be ours by name alone:
    // whoever followed it is above us, or below where nothing was left of it in between.
    const lower = numbersOf(file).filter((n) => n <= last);
    const isTakenBelow = lower.some((n) => {
      const text = ifThere(() => readFileSync(`${file}.${n}`, 'utf8'));
      return text !== undefined && isTaken(JSON.parse(text) as Holder);
    });
    if (highest(file) > last + 1 || isTakenBelow) {
      rmSync(name, { force: true });
      continue;
    }
    for (const n of lower) rmSync(`${file}.${n}`, { force: true });
    return { outcome: 'ours', name };
  }
}

/** Removes what is left of a lock that nobody holds. */
export async function removeLock(file: string): Promise<void> {
  if (highest(file) === 0 || isLocked(file)) return;
  const { signal } = new AbortController();
  await withLock(
    file,
    { report: () => undefined, signal, leavesNothing: () => true },
    async () => {},
  );
}

/** Says otherwise about what is ours: nobody else changes or removes a file whose owner lives. */
export function rewrite<Holder>(name: string, holder: Holder): void {
  renameSync(write(name, holder), name);
}

const highest = (file: string) => Math.max(0, ...numbersOf(file));

/** None in a home that was never made. */
function numbersOf(file: string): number[] {
  const beginning = `${basename(file)}.`;
  const names = ifThere(() => readdirSync(dirname(file))) ?? [];
  return names
    .filter((name) => name.startsWith(beginning))
    .map((name) => name.slice(beginning.length))
    .filter((rest) => /^\d+$/.test(rest))
    .map(Number);
}

/** Linking a file that is already written: nobody ever reads one without its owner in it. */
function linkNew(name: string, holder: unknown): boolean {
  const written = write(name, holder);
  try {
    linkSync(written, name);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(written);
  }
}

function write(name: string, holder: unknown): string {
  const file = join(dirname(name), `writing-${randomUUID()}`);
  writeFileSync(file, JSON.stringify(holder), { mode: 0o600 });
  return file;
}

function ifThere<Result>(read: () => Result): Result | undefined {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
