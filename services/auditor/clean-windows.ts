/**
 * Windows that are too new to be closed and in which an audit found everything at its end and in
 * agreement. Scheduled audits take them as they were found, or each payment would be compared again
 * every minute for as long as no slice holds it. They look again at one at a time, and when it is
 * closed a slice is compared whatever is known here. An audit that somebody asks for knows nothing.
 *
 * It is the memory of one auditor: one that begins to audit compares all that is open.
 */
import type { Queryable } from '@triplock/postgres';
import type { Window } from './checks.ts';
import { isFinished, stillOpen } from './slices.ts';
import { addTotals, type Look, type SliceLimits, type Totals } from './windows.ts';

/** A window, and what it comes to. */
type CleanWindow = Window & Totals;

/** What one auditor remembers of its audits. */
export type CleanWindows = {
  /**
   * Those that no closed slice overlaps; the others are forgotten, and the one that was looked at
   * longest ago when its turn has come.
   */
  take(database: Queryable): Promise<readonly CleanWindow[]>;
  /** Remembers a window, unless something in it is wrong or has not come to its end. */
  add(window: Window, look: Look): void;
  /** Forgets them all, and says whether there were any. */
  forget(): boolean;
};

/**
 * Milliseconds to the next look again, for each request in the window: one takes about 0.2 ms in
 * all layers, so looking again takes a hundredth of the time.
 */
const pauseMsARow = 20;

/** How much is remembered: rows of a window that was joined, and windows. */
type Memory = Pick<SliceLimits, 'rowsMax'> & { windowsMax?: number };

/**
 * Knows none yet. Windows that follow one another are one while they hold few enough rows, so a
 * thousand without anything wrong between them are more than twelve million requests.
 *
 * What is wrong for long leaves small ones between, which no slice ever closes. Beyond `windowsMax`
 * (1 000 by default) the one with the least in it is forgotten: that costs no more than a look at
 * it by the next audit.
 */
export function cleanWindows({ rowsMax, windowsMax = 1_000 }: Memory): CleanWindows {
  // By when they were looked at, longest ago first.
  let known: CleanWindow[] = [];
  let nextAtMs = 0;
  return {
    take: async (database) => {
      known = await stillOpen(database, known);
      if (known.length > 0 && performance.now() >= nextAtMs) {
        nextAtMs = performance.now() + pauseMsARow * known.shift()!.counts.accepted;
      }
      return [...known];
    },
    add: ({ from, until }, look) => {
      if (!isFinished(look)) return;
      let added: CleanWindow = { from, until, ...addTotals([look]) };
      let at = known.length;
      for (const isNext of [endsWhere(from), beginsWhere(until)]) {
        const nth = known.findIndex(isNext);
        const next = known[nth];
        if (next === undefined || rowsOf(next) + rowsOf(added) > rowsMax) continue;
        known.splice(nth, 1);
        added = join(added, next);
        // Its turn comes as that of the one that was looked at longer ago.
        at = Math.min(at, nth);
      }
      known.splice(at, 0, added);
      if (known.length > windowsMax) known.splice(indexOfLeast(known), 1);
    },
    forget: () => known.splice(0).length > 0,
  };
}

const rowsOf = ({ counts }: CleanWindow) => counts.accepted;
const endsWhere = (begin: string) => (each: Window) => each.until === begin;
const beginsWhere = (end: string) => (each: Window) => each.from === end;

function join(one: CleanWindow, other: CleanWindow): CleanWindow {
  const [first, second] = one.until === other.from ? [one, other] : [other, one];
  return { from: first.from, until: second.until, ...addTotals([one, other]) };
}

function indexOfLeast(windows: readonly CleanWindow[]): number {
  const least = Math.min(...windows.map(rowsOf));
  return windows.findIndex((each) => rowsOf(each) === least);
}
