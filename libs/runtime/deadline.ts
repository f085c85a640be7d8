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
