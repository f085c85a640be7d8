/**
 * Runs tasks at the same time. When one fails the others are asked to give up, and the failure is
 * thrown only when all have ended: nothing is still at work behind the caller's back.
 */
export async function together<Result>(
  signal: AbortSignal,
  tasks: readonly ((signal: AbortSignal) => Promise<Result>)[],
): Promise<Result[]> {
  const givingUp = new AbortController();
  const shared = AbortSignal.any([signal, givingUp.signal]);
  const failures: unknown[] = [];
  const running = tasks.map(async (task) => {
    try {
      return await task(shared);
    } catch (error) {
      failures.push(error);
      givingUp.abort();
      throw error;
    }
  });
  const settled = await Promise.allSettled(running);
  if (failures.length > 0) throw failures[0];
  return settled.map((each) => (each as PromiseFulfilledResult<Result>).value);
}
