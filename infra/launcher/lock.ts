import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isSameProcess, startTimeOf } from './processes/identity.ts';
import type { Report } from './session.ts';

/** A process that holds something. */
export type Owner = { pid: number; startedAt: string };

/**
 * Runs `work` while no other launcher holds the lock file; waits for a live owner and takes over
 * from a dead one.
 */
export async function withLock<Result>(
  file: string,
  waiting: { report: Report; signal: AbortSignal },
  work: () => Promise<Result>,
): Promise<Result> {
  let reported = false;
  for (;;) {
    const owner = tryLock(file);
    if (owner === undefined) break;
    if (!reported && owner.pid !== process.pid)
      waiting.report(`waiting for another launcher (pid ${owner.pid}) to finish`);
    reported = true;
    await delay(200, undefined, { signal: waiting.signal });
  }
  try {
    return await work();
  } finally {
    rmSync(file, { force: true });
  }
}

/** Whether a launcher holds the lock file now. */
export function isLocked(file: string): boolean {
  const text = readIfThere(file);
  return text !== undefined && isSameProcess(JSON.parse(text) as Owner);
}

/** Returns the live owner, or nothing when the lock is now ours. */
function tryLock(file: string): Owner | undefined {
  const mine = `${file}.${randomUUID()}`;
  const me: Owner = { pid: process.pid, startedAt: startTimeOf(process.pid) ?? '' };
  writeFileSync(mine, JSON.stringify(me));
  try {
    for (;;) {
      // Linking a file that is already written: nobody ever reads a lock without its owner in it.
      if (tryLink(mine, file)) return undefined;
      const text = readIfThere(file);
      if (text === undefined) continue;
      const owner = JSON.parse(text) as Owner;
      if (isSameProcess(owner)) return owner;
      removeStale(file, text);
    }
  } finally {
    rmSync(mine);
  }
}

function removeStale(file: string, judged: string): void {
  const aside = `${file}.${randomUUID()}`;
  try {
    renameSync(file, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  // Another launcher may have replaced the dead owner's lock by its own since we looked.
  if (readIfThere(aside) !== judged) tryLink(aside, file);
  rmSync(aside);
}

/** Gives a file a second name, unless that is taken. */
export function tryLink(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

export function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
