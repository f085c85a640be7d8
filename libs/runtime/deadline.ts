/** Thrown when work was not done in time. Its outcome is unknown: it may still get done. */
export class DeadlineError extends Error {
  override name = 'DeadlineError';
}

/**
 * The work's own outcome, or a DeadlineError after `ms` milliseconds. Nothing is cancelled, and
 * what a late work rejects with has been given up on together with the work.
 */
export function withDeadline<Result>(
  work: Promise<Result>,
  limit: { ms: number; what: string },
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new DeadlineError(`${limit.what} did not answer within ${limit.ms} ms`));
    }, limit.ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

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
