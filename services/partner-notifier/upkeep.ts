import type { Pass } from '@triplock/runtime';
import type { Deliveries, Retention } from './deliveries.ts';
import type { NotifierMetrics } from './metrics.ts';

/**
 * A pass that measures what is still to be delivered, what waits for an endpoint, and whose rates
 * are spent. It never has more to do, so it rests.
 */
export function measureBacklog(deliveries: Deliveries, metrics: NotifierMetrics): Pass {
  return async () => {
    const { waiting, oldestSeconds, parked, oldestParkedSeconds } = await deliveries.backlog();
    metrics.waiting.set(waiting);
    metrics.oldestSeconds.set(oldestSeconds);
    metrics.parked.set(parked);
    metrics.oldestParkedSeconds.set(oldestParkedSeconds);
    const { partners, hosts, endpoints } = await deliveries.spentRates();
    metrics.ratesSpent.labels('partner').set(partners);
    metrics.ratesSpent.labels('host').set(hosts);
    metrics.ratesSpent.labels('endpoint').set(endpoints);
    return 0;
  };
}

/** So few that a batch is done in some milliseconds and holds up no attempt. */
const batchMax = 500;

/**
 * A pass that releases one batch of what was parked for want of an endpoint. The loop comes again
 * at once while there is more.
 */
export function releaseDeliveries(deliveries: Deliveries): Pass {
  return () => deliveries.release(batchMax);
}

/**
 * A pass that removes one small batch of webhooks that have been kept for long enough. The loop
 * comes again at once while there is more.
 */
export function reapDeliveries(
  deliveries: Deliveries,
  metrics: NotifierMetrics,
  retention: Retention,
): Pass {
  return async () => {
    const reaped = await deliveries.reap(retention, batchMax);
    metrics.reaped.count('deliveries', reaped);
    return reaped;
  };
}

/** A pass that removes some of what partners' settings left behind long ago, as the one above. */
export function reapSettings(deliveries: Deliveries, metrics: NotifierMetrics): Pass {
  return async () => {
    const reaped = await deliveries.reapSettings(batchMax);
    metrics.reaped.count('settings', reaped);
    return reaped;
  };
}
