import { Counter, Durations, Gauge, Tally, usualBuckets, type Registry } from '@triplock/runtime';
import type { PublishOutcome } from '@triplock/transport';

/** What the dispatcher counts. */
export type DispatcherMetrics = {
  /** Events by what came of publishing them. */
  events: Tally<'published' | 'unknown' | 'parked'>;
  /** One key's events sent in order, by what came of the last of them. */
  publishSeconds: Durations<PublishOutcome['outcome']>;
  /** Events that were published under a lease that had ended: they will be published again. */
  unmarked: Counter;
  /** Buckets that are this dispatcher's. */
  leases: Gauge;
  /** Events that left the outbox by age. */
  reaped: Counter;
  /** Events that can be published, and the age of the oldest of them. */
  waiting: Gauge;
  oldestSeconds: Gauge;
  /** Events that nobody can publish before a redrive. */
  held: Gauge;
};

/** Registers the dispatcher's metrics. */
export function dispatcherMetrics(registry: Registry): DispatcherMetrics {
  const registers = [registry];
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });
  return {
    events: new Tally({
      name: 'triplock_dispatcher_events_total',
      help: 'Events, by outcome of publishing; a copy counts again.',
      label: 'outcome',
      values: { published: 0, unknown: 0, parked: 0 },
      registers,
    }),
    publishSeconds: new Durations({
      name: 'triplock_dispatcher_publish_seconds',
      help: 'Time until Pub/Sub acknowledged the events of one ordering key, by outcome of the last one.',
      buckets: usualBuckets,
      outcomes: ['published', 'unknown', 'unpublishable'],
      registers,
    }),
    unmarked: new Counter({
      name: 'triplock_dispatcher_unmarked_total',
      help: 'Events whose lease ended between publish and mark: the next owner sends a copy.',
      registers,
    }),
    reaped: new Counter({
      name: 'triplock_outbox_reaped_total',
      help: 'Published events that the reaper removed from the outbox.',
      registers,
    }),
    leases: gauge('triplock_dispatcher_leases', 'Buckets that this dispatcher publishes.'),
    waiting: gauge('triplock_outbox_pending_rows', 'Events waiting to be published, up to 10 000.'),
    oldestSeconds: gauge(
      'triplock_outbox_oldest_seconds',
      'Age of the oldest event waiting to be published.',
    ),
    held: gauge(
      'triplock_outbox_held_rows',
      'Events that are parked or stand behind a parked one of their payment, up to 10 000.',
    ),
  };
}
