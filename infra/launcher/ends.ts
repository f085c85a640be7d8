import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Home, readJson, writeJson } from './home.ts';
import type { ProcessIdentity } from './processes/identity.ts';
import { lastLines, logFileOf } from './processes/logs.ts';
import type { ProcessRecord } from './session.ts';

/** How a run of a process came to its end, with the reason that its last words give, if any. */
export type End =
  /** Somebody had it ended, and it stays so until somebody has it started. */
  | { by: 'order' }
  /** At a crash point that was armed: likewise. */
  | { by: 'crash point' }
  | { by: 'itself'; why?: string };

/**
 * Says that this run of a process is ended by order. Call it before the process hears of it: one
 * that were found gone before would be taken for one that ended by itself. It names the run, so
 * that it is no matter how long it lies there, nor who starts the process again.
 */
export function orderEnd(home: Home, { name, pid, startedAt }: ProcessRecord): void {
  mkdirSync(home.orders, { recursive: true });
  writeJson(orderOf(home, name), { pid, startedAt });
}

const orderOf = ({ orders }: Home, name: string) => join(orders, `${name}.json`);

/** How a process that is gone came to its end. */
export function howEnded(home: Home, record: ProcessRecord): End {
  const ordered = readJson(orderOf(home, record.name)) as ProcessIdentity | undefined;
  if (ordered !== undefined && isSameRun(ordered, record)) return { by: 'order' };
  const from = record.logFrom ?? 0;
  return endIn(lastLines(logFileOf(home, record.name), { lines: lastWordsMax, from }));
}

/** Whether two records are of the same run, be it over or not. */
export function isSameRun(one: ProcessIdentity, other: ProcessIdentity): boolean {
  return one.pid === other.pid && one.startedAt === other.startedAt;
}

/** More than V8 writes when its heap is full, and Node of an error that nobody caught. */
const lastWordsMax = 100;
const fatal = 60;
const whyCharactersMax = 200;

/** What the last lines of a log say of the end of who wrote them. */
export function endIn(lines: readonly string[]): End {
  const entries = lines.map(entryIn);
  const lastEntry = entries.findLastIndex((each) => each !== undefined);
  // Beside its log a process prints only why it ends, after everything else.
  const printed = lines.slice(lastEntry + 1).filter((line) => !/^\(|^\s*$/.test(line));
  const failed = entries.findLast((each) => each?.level === fatal);
  const isCrash = /^(?:crash point |CrashPointError: )/;
  if (printed.some((line) => isCrash.test(line)) || failed?.err?.type === 'CrashPointError') {
    return { by: 'crash point' };
  }
  const why =
    printed.find((line) => line.startsWith('FATAL ERROR: ')) ??
    printed.find((line) => /^(?:Uncaught )?(?:[A-Z]\w*)?(?:Error|Exception)\b/.test(line)) ??
    printed[0] ??
    (failed && [failed.msg, failed.err?.message].filter(Boolean).join(': '));
  return { by: 'itself', ...(why && { why: why.trim().slice(0, whyCharactersMax) }) };
}

type Entry = { level?: number; msg?: string; err?: { type?: string; message?: string } };

function entryIn(line: string): Entry | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line) as Entry;
  } catch {
    // Cut off by the end of its process, or no entry of a log.
    return undefined;
  }
}
