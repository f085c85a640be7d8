import type { Way } from '@triplock/pipeline';

/** What the dispatcher tells of a payment's way. */
export const way = {
  panels: {
    title: 'Dispatcher',
    duration: { of: 'publishes of a bucket', metric: 'triplock_dispatcher_publish_seconds' },
    reaped: { metric: 'triplock_outbox_reaped_total', by: 'service', legend: 'outbox' },
    stages: [
      {
        title: '3. Final, not published',
        where: 'in the outbox, for a dispatcher',
        count: 'triplock_outbox_pending_rows',
        age: 'triplock_outbox_oldest_seconds',
        charted: {
          as: '3. final',
          waits: 'settled, not published',
          passes: 'triplock_dispatcher_events_total{outcome="published"}',
          passed: 'published',
        },
      },
    ],
    numbers: [
      {
        title: 'Buckets leased',
        description: '64 in all while a dispatcher lives, shared among them.',
        unit: 'short',
        shows: [{ greatestOf: 'triplock_dispatcher_leases', as: '{{instance}}', by: 'instance' }],
      },
    ],
    row: {
      title: 'Outbox',
      panels: [
        {
          title: 'Events waiting',
          description:
            'Events that are not published yet, counted up to 10 000; held ones are parked or stand behind a parked one, until a redrive. Every dispatcher counts the whole outbox.',
          unit: 'short',
          shows: [
            { greatestOf: 'triplock_outbox_pending_rows', as: 'events' },
            { greatestOf: 'triplock_outbox_held_rows', as: 'held' },
          ],
        },
        {
          title: 'Oldest event waiting',
          description: 'How long the oldest of them has waited.',
          unit: 's',
          shows: [{ greatestOf: 'triplock_outbox_oldest_seconds', as: 'oldest' }],
        },
        {
          title: 'Published',
          description:
            'Events, by outcome of publishing. unknown is tried again; parked needs a person.',
          unit: 'reqps',
          shows: [{ rateOf: 'triplock_dispatcher_events_total', by: 'outcome' }],
        },
        {
          title: 'Time of a publish',
          description: 'Time until Pub/Sub acknowledged the events of one bucket.',
          unit: 's',
          shows: [{ timesOf: 'triplock_dispatcher_publish_seconds', by: 'outcome' }],
        },
        {
          title: 'Published under a lost lease',
          description:
            'Events that the next owner of the bucket publishes again: copies that the inboxes catch.',
          unit: 'reqps',
          shows: [{ rateOf: 'triplock_dispatcher_unmarked_total', by: 'instance' }],
        },
      ],
    },
  },
  counters: { published: [['triplock_dispatcher_events_total', 'published']] },
  gauges: {
    outboxPending: ['triplock_outbox_pending_rows', 'largest'],
    outboxOldest: ['triplock_outbox_oldest_seconds', 'largest'],
    outboxHeld: ['triplock_outbox_held_rows', 'largest'],
  },
  hop: {
    from: 'outbox',
    guard: 'guard 3a',
    does: 'publishes, then marks',
    unit: 'published',
    rate: 'published',
  },
} as const satisfies Way;
