import type { Outbox } from '@triplock/ledger';
import type { Pass } from '@triplock/runtime';
import type { DispatcherMetrics } from './metrics.ts';

/** So few that a batch is done in some milliseconds and holds up no mark. */
const batchRowsMax = 500;

/**
 * A pass that takes events out of the outbox which were published longer than `keepMs` ago: one
 * small batch, and the loop comes again at once while there is more. Two dispatchers take turns.
 */
export function reapOutbox(
  outbox: Pick<Outbox, 'reap'>,
  { metrics, keepMs }: { metrics: Pick<DispatcherMetrics, 'reaped'>; keepMs: number },
): Pass {
  return async () => {
    const reaped = await outbox.reap({ keepMs, rowsMax: batchRowsMax });
    metrics.reaped.inc(reaped);
    return reaped;
  };
}
