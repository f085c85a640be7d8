import { setTimeout as delay } from 'node:timers/promises';
import { toJson } from '@triplock/command';

/** Something the system promises did not hold: the one failure that matters. */
export class BrokenPromise extends Error {
  override name = 'BrokenPromise';
  /** Payments it was seen on. */
  readonly ids: readonly string[];
  constructor(promise: string, ids: readonly string[]) {
    super(`broken promise: ${promise}`);
    this.ids = ids;
  }
}

/** The run proves nothing, because what was to be broken was not. */
export class FaultDidNotFire extends Error {
  override name = 'FaultDidNotFire';
  constructor(fault: string, options?: ErrorOptions) {
    super(`the fault did not fire: ${fault}`, options);
  }
}

/** What was looked at, and on which payments. */
export type Evidence = { ids: readonly string[]; saw: unknown };

/** Holds the system to a promise. */
export function promised(promise: string, holds: boolean, evidence: Evidence): asserts holds {
  if (holds) return;
  throw new BrokenPromise(`${promise}; saw ${toJson(evidence.saw)}`, evidence.ids);
}

/** Makes sure that a fault was really there. */
export function fired(fault: string, seen: boolean): asserts seen {
  if (!seen) throw new FaultDidNotFire(fault);
}

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
