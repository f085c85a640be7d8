import { setTimeout as delay } from 'node:timers/promises';

/**
 * Asks again until `check` gives something other than `undefined` or `false`, and gives that.
 * It waits for a state and not for a time: `withinMs` only bounds how long a broken test hangs, and
 * has to be enough on a machine that is busy with twenty other things.
 *
 * @throws with the last error or answer when the state does not come.
 */
export async function eventually<Value>(
  check: () => Promise<Value | undefined | false>,
  limits: { withinMs: number; what: string } = { withinMs: 60_000, what: 'the expected state' },
): Promise<Value> {
  const deadline = performance.now() + limits.withinMs;
  for (;;) {
    const { value, error } = await attempt(check);
    if (value !== undefined && value !== false) return value;
    if (performance.now() > deadline) {
      const last = error instanceof Error ? `; at last: ${error.message}` : '';
      const message = `${limits.what} did not come within ${limits.withinMs} ms${last}`;
      throw new Error(message, { cause: error });
    }
    await delay(25);
  }
}

async function attempt<Value>(
  check: () => Promise<Value | undefined | false>,
): Promise<{ value?: Value | false; error?: unknown }> {
  try {
    return { value: await check() };
  } catch (error) {
    return { error };
  }
}
