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

/** Knows none yet. Windows that follow one another are one while they hold few enough rows. */
export function cleanWindows({ rowsMax }: Pick<SliceLimits, 'rowsMax'>): CleanWindows {
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
      const nth = known.findIndex((each) => each.until === from);
      const before = known[nth];
      if (before && before.counts.accepted + look.counts.accepted <= rowsMax) {
        known[nth] = { from: before.from, until, ...addTotals([before, look]) };
      } else {
        known.push({ from, until, ...addTotals([look]) });
      }
    },
    forget: () => known.splice(0).length > 0,
  };
}
