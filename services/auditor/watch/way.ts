import type { Way } from '@triplock/pipeline';

/** What the auditor tells of a payment's way, and of what waits in Kafka. */
export const way = {
  counters: { witnessed: [['triplock_auditor_events_total']] },
  gauges: {
    unread: ['triplock_accepted_unread_records', 'largest'],
    unreadOldest: ['triplock_accepted_oldest_unread_seconds', 'largest'],
    unreadLooked: ['triplock_accepted_unread_timestamp_seconds', 'largest'],
    auditorInHand: ['triplock_auditor_events_in_hand', 'sum'],
    auditorOldest: ['triplock_auditor_events_oldest_seconds', 'largest'],
    auditDrift: ['triplock_audit_drift', 'largest'],
    auditEnded: ['triplock_audit_last_timestamp_seconds', 'largest'],
  },
  hop: {
    from: 'pubsub',
    guard: 'audit',
    does: 'reads every layer',
    unit: 'events seen',
    rate: 'witnessed',
    inHand: 'auditorInHand',
    oldest: 'auditorOldest',
  },
} as const satisfies Way;
