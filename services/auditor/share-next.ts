/**
 * Runs one after the other, each shared by all who called before it began. Who calls during a run
 * gets the next one: the run under way may have passed what the caller wants to be seen.
 */
export function shareNext<Result>(run: () => Promise<Result>): () => Promise<Result> {
  let underWay: Promise<unknown> = Promise.resolve();
  let next: Promise<Result> | undefined;
  return () => {
    if (next === undefined) {
      next = underWay.then(() => {
        next = undefined;
        return run();
      });
      // Those who called are told of a failure; those who wait for their turn only wait.
      underWay = next.catch(() => undefined);
    }
    return next;
  };
}
