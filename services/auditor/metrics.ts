import type { RecordRefusal } from '@triplock/contracts';
import { transactionKinds, type TransactionKind } from '@triplock/payments';
import { Durations, Gauge, Tally, usualBuckets, type Registry } from '@triplock/runtime';
import { groupJoins } from '@triplock/transport';

/** Why a record became a dead letter; `unlabelled` does not say, `other` is no word of ours. */
export type DeadLetterReason =
  RecordRefusal['reason'] | 'key_conflict' | 'unpostable' | 'unlabelled' | 'other';

/** What the auditor counts of what it reads. */
export type ReadingMetrics = {
  /** Events by what their delivery was: the first, another copy, or an altered one. */
  events: Tally<'first' | 'copy' | 'altered'>;
  records: Tally<AcceptedRecordName>;
  recordsSeconds: Durations<'recorded' | 'failed'>;
  deadLetters: Tally<DeadLetterReason>;
  /** Times that a group was joined, by what it reads. */
  joins: Tally<'accepted' | 'dead_letter'>;
};

/** What a record of the accepted topic is: a request, or `refused`, which is none. */
export type AcceptedRecordName = TransactionKind | 'refused';

const noneOfEachKind = Object.fromEntries(transactionKinds.map((kind) => [kind, 0])) as Record<
  TransactionKind,
  0
>;

/** What the auditor measures of its audits. */
export type AuditMetrics = {
  /**
   * Offending ids of the last scheduled audit, whichever auditor made it, 100 per check at most.
   */
  drift: Gauge<'check'>;
  inFlight: Gauge<'check'>;
  /** Age of the oldest of what was in flight at the last scheduled audit. */
  inFlightOldestSeconds: Gauge<'check'>;
  /** What waits for others, 100 per check and partner at most, and the age of the oldest. */
  waiting: Gauge<'check'>;
  waitingOldestSeconds: Gauge<'check'>;
  /** Time that each check took in the last audit that this auditor made. */
  checkSeconds: Gauge<'check'>;
  /** Scheduled audits that this auditor made. */
  runs: Tally<'completed' | 'failed'>;
  auditSeconds: Gauge;
  /** When the last scheduled audit ended, of whichever auditor. */
  lastAudit: Gauge;
};

/** What the auditor measures of the accepted topic. */
export type TopicMetrics = {
  /** Age of the oldest accepted record that no worker has read, and that as a part of retention. */
  oldestUnreadSeconds: Gauge;
  retentionUsed: Gauge;
  /** Accepted records that no worker has finished. */
  unread: Gauge;
  /** When these were counted: who shows them knows how old they are. */
  unreadLooked: Gauge;
  /** Accepted records that Kafka dropped before a worker read them: lost payments. */
  droppedUnread: Gauge;
};

/** What the auditor counts. */
export type AuditorMetrics = ReadingMetrics & AuditMetrics & TopicMetrics;

/** Registers the auditor's metrics. */
export function auditorMetrics(registry: Registry): AuditorMetrics {
  return { ...readingMetrics(registry), ...auditMetrics(registry), ...topicMetrics(registry) };
}

function readingMetrics(registry: Registry): ReadingMetrics {
  const registers = [registry];
  return {
    events: new Tally({
      name: 'triplock_auditor_events_total',
      help: 'Deliveries of events: first, copy or altered.',
      label: 'outcome',
      values: { first: 0, copy: 0, altered: 0 },
      registers,
    }),
    records: new Tally({
      name: 'triplock_auditor_accepted_records_total',
      help: 'Records of the accepted topic, by what each is.',
      label: 'outcome',
      values: { ...noneOfEachKind, refused: 0 },
      registers,
    }),
    recordsSeconds: new Durations({
      name: 'triplock_auditor_records_seconds',
      help: 'Time to record a batch of the accepted topic. failed: redelivered.',
      buckets: usualBuckets,
      outcomes: ['recorded', 'failed'],
      registers,
    }),
    deadLetters: deadLettersTally(registry),
    joins: groupJoins(registry, { accepted: 0, dead_letter: 0 }),
  };
}

const reasons = {
  null_value: 0,
  too_large: 0,
  not_json: 0,
  unknown_schema: 0,
  invalid_record: 0,
  forged_id: 0,
  partner_mismatch: 0,
  key_conflict: 0,
  unpostable: 0,
  unlabelled: 0,
  other: 0,
} as const satisfies Record<DeadLetterReason, 0>;

/** Every one that is counted by its own word. */
export const deadLetterReasons = Object.keys(reasons) as readonly DeadLetterReason[];

function deadLettersTally(registry: Registry): ReadingMetrics['deadLetters'] {
  return new Tally({
    name: 'triplock_auditor_dead_letters_total',
    help: 'Dead letters of the accepted topic, by the reason they carry.',
    label: 'reason',
    values: reasons,
    registers: [registry],
  });
}

function auditMetrics(registry: Registry): AuditMetrics {
  const registers = [registry];
  const perCheck = (name: string, help: string) =>
    new Gauge({ name, help, labelNames: ['check'], registers });
  return {
    drift: perCheck(
      'triplock_audit_drift',
      'Offending ids found by the last scheduled audit, at most 100 per check.',
    ),
    inFlight: perCheck(
      'triplock_audit_in_flight',
      'Ids that the last scheduled audit found in flight, at most 100 per check.',
    ),
    inFlightOldestSeconds: perCheck(
      'triplock_audit_in_flight_oldest_seconds',
      'Age of the oldest id in flight at the last scheduled audit; 0 if there was none.',
    ),
    waiting: perCheck(
      'triplock_audit_waiting',
      'Ids that wait for a customer, a bank, a capture or a partner’s endpoint, at most 100 per partner.',
    ),
    waitingOldestSeconds: perCheck(
      'triplock_audit_waiting_oldest_seconds',
      'How long the oldest id has waited for others at the last scheduled audit; 0 if none did.',
    ),
    checkSeconds: perCheck(
      'triplock_audit_check_seconds',
      'Duration of each check in the last scheduled audit that this auditor ran.',
    ),
    runs: new Tally({
      name: 'triplock_audit_runs_total',
      help: 'Scheduled audits that this auditor started. failed: it could not compare everything.',
      label: 'outcome',
      values: { completed: 0, failed: 0 },
      registers,
    }),
    auditSeconds: new Gauge({
      name: 'triplock_audit_seconds',
      help: 'Duration of the last scheduled audit.',
      registers,
    }),
    lastAudit: new Gauge({
      name: 'triplock_audit_last_timestamp_seconds',
      help: 'When the last scheduled audit ended, whichever auditor ran it; 0 before the first.',
      registers,
    }),
  };
}

function topicMetrics(registry: Registry): TopicMetrics {
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers: [registry] });
  return {
    oldestUnreadSeconds: gauge(
      'triplock_accepted_oldest_unread_seconds',
      'Age of the oldest accepted record that no ledger worker has finished.',
    ),
    retentionUsed: gauge(
      'triplock_accepted_retention_used_ratio',
      'Age of the oldest unread record as a share of Kafka’s retention: at 1, payments are lost.',
    ),
    unread: gauge(
      'triplock_accepted_unread_records',
      'Accepted records that no ledger worker has finished, also while none is running.',
    ),
    unreadLooked: gauge(
      'triplock_accepted_unread_timestamp_seconds',
      'When this auditor last counted the unread records; 0 before the first time.',
    ),
    droppedUnread: gauge(
      'triplock_accepted_dropped_unread_records',
      'Accepted records that Kafka dropped before a ledger worker had read them.',
    ),
  };
}
