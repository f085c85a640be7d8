import { withDeadline } from '@triplock/runtime';

/** The time that one request has for all its steps together. */
export type TimeBudget = {
  /**
   * The work's outcome, or a DeadlineError when the budget is spent first. The work itself goes on.
   */
  hold<Result>(work: Promise<Result>, what: string): Promise<Result>;
};

/** Starts a budget of so many milliseconds now. */
export function startBudget(totalMs: number): TimeBudget {
  const end = performance.now() + totalMs;
  return {
    hold: (work, what) => {
      return withDeadline(work, { ms: Math.max(0, Math.round(end - performance.now())), what });
    },
  };
}
