import type { Way } from '@triplock/pipeline';

/** What the dispatcher tells of a payment's way. */
export const way = {
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
