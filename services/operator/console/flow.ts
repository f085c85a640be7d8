import { setTimeout as delay } from 'node:timers/promises';
import { wordsOf } from '../command.ts';
import { flowIn, newHistory, remember, type Flow, type KnownProcess } from './flow-history.ts';
import { askFigures, type ProcessFigures } from './process-figures.ts';

/** The look at all processes that everybody who looks shares. */
export type FlowWatch = {
  /** What the last look saw; the first one is waited for. */
  now(): Promise<Flow>;
  /** Each look from now on, every two seconds, until the signal aborts. */
  watch(signal: AbortSignal): AsyncIterable<Flow>;
  close(): Promise<void>;
};

const watchedEveryMs = 2_000;
/** An idle system stays idle: often enough for the charts. */
const unwatchedEveryMs = 15_000;

/**
 * Looks at every process now and then, and more often while somebody watches. One that does not
 * answer is away, and the figures of the others go on. It remembers an hour, in this process alone.
 */
export function watchFlow(
  known: readonly KnownProcess[],
  ask: (url: string) => Promise<ProcessFigures> = askFigures,
): FlowWatch {
  const closing = new AbortController();
  let history = newHistory(known);
  let watchers = 0;
  let woken = new AbortController();
  let next = Promise.withResolvers<Flow>();
  let last: Flow | undefined;

  async function look(): Promise<void> {
    const answers = await Promise.all(
      known.map(({ url }) => ask(url).catch((error: unknown) => wordsOf(error))),
    );
    const everyMs = watchers > 0 ? watchedEveryMs : unwatchedEveryMs;
    history = remember(history, answers, Date.now());
    last = { ...flowIn(history), everySeconds: everyMs / 1_000 };
    const waiting = next;
    next = Promise.withResolvers<Flow>();
    waiting.resolve(last);
  }

  async function run(): Promise<void> {
    while (!closing.signal.aborted) {
      const begun = performance.now();
      woken = new AbortController();
      await look();
      const everyMs = watchers > 0 ? watchedEveryMs : unwatchedEveryMs;
      const restMs = Math.max(0, everyMs - (performance.now() - begun));
      await delay(restMs, undefined, { signal: woken.signal }).catch(() => undefined);
    }
  }

  const ended = run();
  return {
    now: async () => last ?? next.promise,
    watch: async function* (signal) {
      watchers += 1;
      // Whoever comes first does not wait for the end of a long rest.
      if (watchers === 1) woken.abort();
      try {
        const gone = new Promise<undefined>((resolve) => {
          AbortSignal.any([signal, closing.signal]).addEventListener('abort', () =>
            resolve(undefined),
          );
        });
        for (;;) {
          const flow = await Promise.race([next.promise, gone]);
          if (flow === undefined) return;
          yield flow;
        }
      } finally {
        watchers -= 1;
      }
    },
    close: async () => {
      closing.abort();
      woken.abort();
      await ended;
    },
  };
}
