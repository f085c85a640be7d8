import { Counter, Gauge, type Registry } from '@triplock/runtime';

/** What the auditor counts. */
export type AuditorMetrics = {
  /** Events by what their delivery was: the first, another copy, or an altered one. */
  events: Counter<'outcome'>;
  refusedMessages: Counter<'reason'>;
  /** Records of the accepted topic: payments, refunds, and what is neither. */
  records: Counter<'outcome'>;
  deadLetters: Counter<'reason'>;
  /** Offending ids of the last scheduled audit, whichever auditor made it, 100 per check at most. */
  drift: Gauge<'check'>;
  inFlight: Gauge<'check'>;
  auditSeconds: Gauge;
  /** Age of the oldest accepted record that no worker has read, and that as a part of retention. */
  oldestUnreadSeconds: Gauge;
  retentionUsed: Gauge;
  /** Accepted records that Kafka dropped before a worker read them: lost payments. */
  droppedUnread: Gauge;
};

/** Registers the auditor's metrics. */
export function auditorMetrics(registry: Registry): AuditorMetrics {
  const registers = [registry];
  return {
    events: new Counter({
      name: 'triplock_auditor_events_total',
      help: 'Deliveries of events: first, copy, altered',
      labelNames: ['outcome'],
      registers,
    }),
    refusedMessages: new Counter({
      name: 'triplock_auditor_refused_messages_total',
      help: 'Messages that are no event of ours, kept and acknowledged',
      labelNames: ['reason'],
      registers,
    }),
    records: new Counter({
      name: 'triplock_auditor_accepted_records_total',
      help: 'Records of the accepted topic: payment, refund, refused',
      labelNames: ['outcome'],
      registers,
    }),
    deadLetters: new Counter({
      name: 'triplock_auditor_dead_letters_total',
      help: 'Dead letters of the accepted topic',
      labelNames: ['reason'],
      registers,
    }),
    drift: new Gauge({
      name: 'triplock_audit_drift',
      help: 'Offending ids of the last scheduled audit, 100 per check at most',
      labelNames: ['check'],
      registers,
    }),
    inFlight: new Gauge({
      name: 'triplock_audit_in_flight',
      help: 'Ids that the last scheduled audit found in flight, 100 per check at most',
      labelNames: ['check'],
      registers,
    }),
    oldestUnreadSeconds: new Gauge({
      name: 'triplock_accepted_oldest_unread_seconds',
      help: 'Age of the oldest accepted record that the ledger worker has not finished',
      registers,
    }),
    retentionUsed: new Gauge({
      name: 'triplock_accepted_retention_used_ratio',
      help: 'That age as a part of what Kafka keeps: at 1 accepted payments are lost',
      registers,
    }),
    droppedUnread: new Gauge({
      name: 'triplock_accepted_dropped_unread_records',
      help: 'Accepted records that Kafka dropped before the ledger worker had read them',
      registers,
    }),
    auditSeconds: new Gauge({
      name: 'triplock_audit_seconds',
      help: 'How long the last scheduled audit took',
      registers,
    }),
  };
}
