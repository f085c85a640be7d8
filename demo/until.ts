import { setTimeout as delay } from 'node:timers/promises';
import { BrokenPromise, FaultDidNotFire } from './broken-promise.ts';

/** A state to wait for. */
export type Wait<Value> = {
  /** Completes "waiting for …". */
  what: string;
  /** Gives the value once the state is there; until then nothing, or throws. */
  check: () => Promise<Value | undefined | false>;
  /** Generous, because it only bounds how long a broken system hangs us: 120 s by default. */
  withinMs?: number;
  /**
   * How far the work is. The limit counts from the last time this changed, so that a long way is
   * told from a standstill.
   */
  progress?: () => number | string;
  /** Aborting ends the wait. */
  signal?: AbortSignal;
};

const pollEveryMs = 100;

/**
 * Asks again until the state is there. What broke for good (a broken promise) is thrown at once.
 *
 * @throws with what was waited for when it does not come, and the last error as its cause.
 */
export async function until<Value>(wait: Wait<Value>): Promise<Value> {
  const withinMs = wait.withinMs ?? 120_000;
  let since = performance.now();
  let reached = wait.progress?.();
  for (;;) {
    const { value, error } = await attempt(wait.check);
    if (value !== undefined && value !== false) return value;
    const now = wait.progress?.();
    if (now !== reached) [reached, since] = [now, performance.now()];
    if (performance.now() - since > withinMs) {
      const seconds = Math.round(withinMs / 1_000);
      throw new Error(`waited ${seconds} s in vain for ${wait.what}`, { cause: error });
    }
    await delay(pollEveryMs, undefined, { signal: wait.signal });
  }
}

async function attempt<Value>(
  check: () => Promise<Value>,
): Promise<{ value?: Value; error?: unknown }> {
  try {
    return { value: await check() };
  } catch (error) {
    if (error instanceof BrokenPromise || error instanceof FaultDidNotFire) throw error;
    return { error };
  }
}
