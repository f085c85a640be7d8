import type { Outbox } from '@triplock/ledger';
import type { Pass } from '@triplock/runtime';
import type { DispatcherMetrics } from './metrics.ts';

/** So few that a batch is done in some milliseconds and holds up no mark. */
const reapRowsMax = 500;

/**
 * A pass that removes events from the outbox which were published longer than `keepMs` ago: one
 * small batch, and the loop comes again at once while there is more. Two dispatchers wait for one
 * another.
 */
export function reapOutbox(outbox: Outbox, metrics: DispatcherMetrics, keepMs: number): Pass {
  return async () => {
    const reaped = await outbox.reap({ keepMs, rowsMax: reapRowsMax });
    metrics.reaped.inc(reaped);
    return reaped;
  };
}

/** A pass that measures what waits to be published. It never has more to do, so it rests. */
export function measureBacklog(outbox: Outbox, metrics: DispatcherMetrics): Pass {
  return async () => {
    const { rows, oldestSeconds, held } = await outbox.pending();
    metrics.waiting.set(rows);
    metrics.oldestSeconds.set(oldestSeconds);
    metrics.held.set(held);
    return 0;
  };
}
