import type { EventsMetrics } from '@triplock/inbox';
import { Counter, type Registry } from '@triplock/runtime';

/** What the settlement feed counts. */
export type SettlementMetrics = EventsMetrics & {
  /** Inbox rows that left by age. */
  reaped: Counter;
};

/** Registers the settlement feed's metrics. */
export function settlementMetrics(registry: Registry): SettlementMetrics {
  const registers = [registry];
  return {
    events: new Counter({
      name: 'triplock_settlement_events_total',
      help: 'Events received, by outcome of the inbox',
      labelNames: ['outcome'],
      registers,
    }),
    refusedMessages: new Counter({
      name: 'triplock_settlement_refused_messages_total',
      help: 'Messages that are no event of ours, kept and acknowledged',
      labelNames: ['reason'],
      registers,
    }),
    reaped: new Counter({
      name: 'triplock_settlement_reaped_total',
      help: 'Inbox rows that left by age',
      registers,
    }),
  };
}
