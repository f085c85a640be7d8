import { eventsMetrics, type EventsMetrics } from '@triplock/inbox';
import { Counter, type Registry } from '@triplock/runtime';

/** What the settlement feed counts. */
export type SettlementMetrics = EventsMetrics & {
  /** Inbox rows removed by the reaper. */
  reaped: Counter;
};

/** Registers the settlement feed's metrics. */
export function settlementMetrics(registry: Registry): SettlementMetrics {
  return {
    ...eventsMetrics(registry, 'triplock_settlement'),
    reaped: new Counter({
      name: 'triplock_settlement_reaped_total',
      help: 'Inbox rows removed by the reaper.',
      registers: [registry],
    }),
  };
}
