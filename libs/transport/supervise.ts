import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs, type Logger } from '@triplock/runtime';

/** Something that lives until it fails, again and again. */
export type Supervised = {
  what: string;
  /** One life. It ends as planned, by an error, or by the one that `closing` rejects with. */
  live(closing: Promise<never>): Promise<void>;
  logger: Logger;
};

/** A life this long was a success: the next rest is short again. */
const goodLifeMs = 30_000;

/**
 * Starts a life after each that ended, with a rest of up to 3 s after an error, until it is closed.
 * `close` resolves when the last life has ended.
 */
export function supervise({ what, live, logger }: Supervised): { close(): Promise<void> } {
  const closing = new AbortController();

  const liveOnce = async (): Promise<void> => {
    // A promise for each life: what waits for a promise that outlives it is never freed.
    const closed = Promise.withResolvers<never>();
    closed.promise.catch(() => undefined); // A close that this life does not wait for is no error.
    const close = () => closed.reject(closing.signal.reason);
    closing.signal.addEventListener('abort', close);
    await live(closed.promise).finally(() => closing.signal.removeEventListener('abort', close));
  };
  const run = async (): Promise<void> => {
    let failures = 0;
    while (!closing.signal.aborted) {
      const startedAt = performance.now();
      try {
        await liveOnce();
        failures = 0;
      } catch (error) {
        if (error === closing.signal.reason) return;
        if (performance.now() - startedAt > goodLifeMs) failures = 0;
        logger.warn({ err: error, failures }, `${what} failed, will restart`);
        await rest(failures, closing.signal);
        failures += 1;
      }
    }
  };
  const ended = run();
  return {
    close: () => {
      closing.abort();
      return ended;
    },
  };
}

function rest(failures: number, signal: AbortSignal): Promise<unknown> {
  const ms = backoffMs(failures, { firstMs: 100, maxMs: 3_000 });
  return delay(ms, undefined, { signal }).catch(() => undefined);
}
