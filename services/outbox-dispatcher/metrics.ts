import { Counter, Gauge, type Registry } from '@triplock/runtime';

/** What the dispatcher counts. */
export type DispatcherMetrics = {
  /** Events by what came of publishing them. */
  events: Counter<'outcome'>;
  /** Buckets that are this dispatcher's. */
  leases: Gauge;
  /** Events that left the outbox by age. */
  reaped: Counter;
  waiting: Gauge;
  oldestSeconds: Gauge;
};

/** Registers the dispatcher's metrics. */
export function dispatcherMetrics(registry: Registry): DispatcherMetrics {
  const registers = [registry];
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });
  return {
    events: new Counter({
      name: 'triplock_dispatcher_events_total',
      help: 'Events by what came of publishing them; a copy counts again.',
      labelNames: ['outcome'],
      registers,
    }),
    reaped: new Counter({
      name: 'triplock_outbox_reaped_total',
      help: 'Published events that left the outbox by age.',
      registers,
    }),
    leases: gauge('triplock_dispatcher_leases', 'Buckets that this dispatcher publishes.'),
    waiting: gauge(
      'triplock_outbox_pending_rows',
      'Events that wait to be published, up to 10 000.',
    ),
    oldestSeconds: gauge(
      'triplock_outbox_oldest_seconds',
      'Age of the oldest event that waits to be published.',
    ),
  };
}
