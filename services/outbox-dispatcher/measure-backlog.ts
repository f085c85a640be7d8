import type { Outbox } from '@triplock/ledger';
import type { Pass } from '@triplock/runtime';
import type { DispatcherMetrics } from './metrics.ts';

/** A pass that measures what waits to be published. It never has more to do, so it rests. */
export function measureBacklog(outbox: Pick<Outbox, 'pending'>, metrics: DispatcherMetrics): Pass {
  return async () => {
    const { rows, oldestSeconds } = await outbox.pending();
    metrics.waiting.set(rows);
    metrics.oldestSeconds.set(oldestSeconds);
    return 0;
  };
}
