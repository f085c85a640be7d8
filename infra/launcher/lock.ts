import { existsSync, rmSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import type { Report } from './session.ts';

/*
 * The locks are SQLite's, on files that nothing is written to: the system takes one back when its
 * process ends, however that ends, so nobody has to judge whether an owner still lives. No such
 * file may be opened otherwise: a process loses its lock on a file by closing it anywhere.
 */

/** Longer than a look takes whether somebody has it. */
const lookedAtMs = 50;
const askAgainMs = 100;
/** Of SQLite: https://www.sqlite.org/rescode.html */
const codes = { busy: 5, cannotOpen: 14 };

/**
 * Runs `work` while no other launcher holds the lock file; waits for one that does. The file stays,
 * unless `leavesNothing`.
 */
export async function withLock<Result>(
  file: string,
  waiting: { report: Report; signal: AbortSignal; leavesNothing?: () => boolean },
  work: () => Promise<Result>,
): Promise<Result> {
  for (let reported = false; ;) {
    const before = inodeOf(file);
    const lock = takeNow(file, lookedAtMs);
    try {
      // Whoever had it may have removed the file that this is the lock of.
      if (lock !== undefined && before !== undefined && before === inodeOf(file)) {
        try {
          return await work();
        } finally {
          if (waiting.leavesNothing?.()) rmSync(file, { force: true });
        }
      }
    } finally {
      lock?.close();
    }
    if (lock !== undefined) continue;
    if (!reported) waiting.report('waiting for another launcher to finish');
    reported = true;
    await delay(askAgainMs, undefined, { signal: waiting.signal });
  }
}

/** Whether a launcher holds the lock file now. */
export function isLocked(file: string): boolean {
  if (!existsSync(file)) return false;
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { readOnly: true });
    database.exec('SELECT 1 FROM sqlite_schema');
    return false;
  } catch (error) {
    if (isOf(error, codes.cannotOpen)) return false; // Gone meanwhile.
    if (isOf(error, codes.busy)) return true;
    throw error;
  } finally {
    database?.close();
  }
}

/** Removes a lock file, unless somebody holds it. */
export async function removeLock(file: string): Promise<void> {
  if (!existsSync(file) || isLocked(file)) return;
  const { signal } = new AbortController();
  const waiting = { report: () => undefined, signal, leavesNothing: () => true };
  await withLock(file, waiting, async () => undefined);
}

/** Does what takes no time while nobody else does it under the same file, which stays. */
export function inTurn<Result>(file: string, work: () => Result): Result {
  const lock = takeNow(file, 30_000);
  if (lock === undefined) throw new Error(`somebody keeps ${file} locked`);
  try {
    return work();
  } finally {
    lock.close();
  }
}

/** The lock, which is let go by closing it; nothing where another has it for so long. */
function takeNow(file: string, timeout: number): DatabaseSync | undefined {
  const database = new DatabaseSync(file, { timeout });
  try {
    // Else there would be a journal beside it, of a database that is empty.
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    return database;
  } catch (error) {
    database.close();
    if (isOf(error, codes.busy)) return undefined;
    throw error;
  }
}

function isOf(error: unknown, code: number): boolean {
  return (error as { errcode?: number }).errcode === code;
}

function inodeOf(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.ino;
}
