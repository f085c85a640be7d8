import type { Outbox } from '@triplock/ledger';
import { runLoop, type Logger, type Loop, type Pass } from '@triplock/runtime';

// An event waits this long at most before it is seen; an empty look costs one indexed read.
const idleMs = 50;

/** Publishes until stopped. Stopping finishes the pass and gives the buckets to the others. */
export function startPublishing(
  pass: Pass,
  options: { outbox: Pick<Outbox, 'releaseBuckets'>; owner: string; logger: Logger },
): Pick<Loop, 'stop'> {
  const loop = runLoop(pass, { name: 'publish', idleMs, logger: options.logger });
  return {
    stop: async () => {
      await loop.stop();
      await options.outbox.releaseBuckets(options.owner);
    },
  };
}
