import type { Pass } from '@triplock/runtime';
import type { Deliveries } from './deliveries.ts';
import type { NotifierMetrics } from './metrics.ts';

/** A pass that measures what is still to be delivered. It never has more to do, so it rests. */
export function measureBacklog(deliveries: Deliveries, metrics: NotifierMetrics): Pass {
  return async () => {
    const { waiting, oldestSeconds } = await deliveries.backlog();
    metrics.waiting.set(waiting);
    metrics.oldestSeconds.set(oldestSeconds);
    return 0;
  };
}
