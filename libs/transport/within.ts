/** The answer did not come in time. What was asked may still happen. */
export class LateError extends Error {
  override name = 'LateError';
}

/**
 * Gives what the promise gives, or rejects with a LateError after `limitMs`. The promise goes on by
 * itself; what it comes to later is dropped.
 */
export async function within<Value>(
  promise: Promise<Value>,
  limit: { limitMs: number; what: string },
): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const error = new LateError(`${limit.what} took longer than ${limit.limitMs} ms`);
    timer = setTimeout(reject, limit.limitMs, error);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
