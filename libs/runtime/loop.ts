import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from './logger.ts';

/** One pass of a loop. It returns how many things it did; 0 lets the loop rest. */
export type Pass = () => Promise<number>;

/** A running loop. */
export type Loop = {
  /** Ends a rest, or the next one when a pass is under way: there is something to do. */
  wake(): void;
  /** Lets the pass under way finish and resolves when it has. */
  stop(): Promise<void>;
};

/** A rest in milliseconds, or one that grows with the passes in a row that found nothing. */
export type IdleMs = number | ((idleBefore: number) => number);

/**
 * Runs a pass forever: at once again while there is work, but no sooner than `apartMs` after the
 * beginning of the one before it (0 by default), so that more gathers for each; after `idleMs` when
 * there was none, which may depend on how many passes in a row, before this one, found none; and
 * after a backoff of up to 5 s when it threw. An error is logged and never ends
 * the loop: the dependency that failed comes back, or an operator sees the log repeat.
 *
 * A wake ends a rest. The pass that it brings begins `wokenApartMs` (10 by default) after the one
 * before it began, at the soonest: wakes come from outside, and a flood of them costs so many
 * passes.
 */
export function runLoop(
  pass: Pass,
  options: {
    name: string;
    idleMs: IdleMs;
    apartMs?: number;
    wokenApartMs?: number;
    logger: Logger;
  },
): Loop {
  const { apartMs = 0, wokenApartMs = 10 } = options;
  const idleMs =
    typeof options.idleMs === 'number' ? () => options.idleMs as number : options.idleMs;
  const stopping = new AbortController();
  let woken = new AbortController();
  const rest = (ms: number) =>
    delay(ms, undefined, { signal: woken.signal }).catch(() => undefined);
  const gather = async (untilMs: number) => {
    const ms = untilMs - performance.now();
    if (ms > 0) await delay(ms, undefined, { signal: stopping.signal }).catch(() => undefined);
  };

  async function run(): Promise<void> {
    let [failures, idle] = [0, 0];
    while (!stopping.signal.aborted) {
      // Whoever woke it before now is served by this pass.
      woken = new AbortController();
      const startedAt = performance.now();
      try {
        const done = await pass();
        failures = 0;
        if (done > 0) {
          idle = 0;
          await gather(startedAt + apartMs);
          continue;
        }
        await rest(idleMs(idle++));
      } catch (error) {
        options.logger.warn(
          { err: error, loop: options.name, failures },
          'pass failed, will retry',
        );
        await rest(backoffMs(failures, { firstMs: 100, maxMs: 5_000 }));
        failures += 1;
      }
      if (woken.signal.aborted) await gather(startedAt + wokenApartMs);
    }
  }

  const ended = run();
  return {
    wake: () => woken.abort(),
    stop: () => {
      stopping.abort();
      woken.abort();
      return ended;
    },
  };
}

/**
 * Listens until it is stopped, and begins anew after `listen` threw. `listen` resolves when its
 * signal aborts.
 */
export function runListener(
  listen: (onNotify: () => void, signal: AbortSignal) => Promise<void>,
  onNotify: () => void,
  logger: Logger,
): Pick<Loop, 'stop'> {
  const closing = new AbortController();
  const pass = async () => {
    await listen(onNotify, closing.signal);
    return 0;
  };
  const loop = runLoop(pass, { name: 'listen', idleMs: 0, logger });
  return {
    stop: () => {
      closing.abort();
      return loop.stop();
    },
  };
}

/** Exponential backoff with full jitter between half and whole; milliseconds. */
export function backoffMs(attempt: number, limits: { firstMs: number; maxMs: number }): number {
  const whole = Math.min(limits.maxMs, limits.firstMs * 2 ** Math.min(attempt, 30));
  return whole / 2 + (Math.random() * whole) / 2;
}

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
  /** Asked before what must not begin late. @throws DeadlineError when the budget is spent. */
  require(what: string): void;
};

/** Starts a budget of so many milliseconds now. */
export function startBudget(totalMs: number): TimeBudget {
  const end = performance.now() + totalMs;
  return {
    require: (what) => {
      if (performance.now() < end) return;
      throw new DeadlineError(`${what} did not begin within ${totalMs} ms`);
    },
    hold: (work, what) => {
      return withDeadline(work, { ms: Math.max(0, Math.round(end - performance.now())), what });
    },
  };
}

/** A wake, which is kept for whoever waits next. */
export type Signal = {
  wake(): void;
  /** Resolves to 1 once it was woken, to 0 after so long. For one who waits at a time. */
  within(ms: number): Promise<number>;
};

/** A signal that nobody has given yet. */
export function openSignal(): Signal {
  let woken = Promise.withResolvers<number>();
  return {
    wake: () => woken.resolve(1),
    async within(ms) {
      const late = setTimeout(() => woken.resolve(0), ms);
      const happened = await woken.promise;
      clearTimeout(late);
      woken = Promise.withResolvers();
      return happened;
    },
  };
}
