import type { WakeOutcome } from '@triplock/ledger';
import { followUpKinds } from '@triplock/payments';
import type { CallOutcome, ProviderCall } from '@triplock/provider';
import { providerNames } from '@triplock/providers';
import {
  Counter,
  duplicatesCaught,
  Durations,
  Gauge,
  Histogram,
  Tally,
  usualBuckets,
  type Registry,
} from '@triplock/runtime';
import { groupJoins } from '@triplock/transport';
import { followUpOutcomes } from './kinds/outcomes.ts';

/** What one attempt to charge or give back came to. */
export type AttemptOutcomeName =
  'succeeded' | 'failed' | 'waiting' | 'unknown' | 'taken-over' | 'stuck';

/** Why a transaction needs a person; `refused`: the provider refuses us, whatever the payment. */
export type StuckReason = 'unreadable' | 'unstorable' | 'refused';

/** What a webhook of the provider came to. */
export type ProviderEventOutcome =
  | WakeOutcome['outcome']
  | ('disputed' | 'dispute-ended' | 'other-currency')
  | ('ignored' | 'foreign' | 'forged' | 'too-large' | 'aborted');

/** What the worker counts of records. */
export type RecordMetrics = {
  /** Records by what they came to; a redelivered record counts again. */
  records: Tally<keyof typeof recordOutcomes>;
  /** Batches of one partition, from their arrival until their offset may be committed. */
  batchSeconds: Durations<'settled' | 'failed'>;
  /** How long after its acceptance a batch's oldest record was done with, seconds. */
  recordAge: Histogram;
  /** Records of each partition that is this worker's and that it has not finished. */
  lag: Gauge<'partition'>;
  /** Payments that were done before their turn, while their partition was far behind. */
  ahead: Counter;
  /** Times that the group was joined. */
  joins: Tally<'accepted'>;
  /** Records that the log lost before they were read, as found when the group was joined. */
  lost: Counter;
  /** Records whose txn_id was in the ledger already, by the state of its row. */
  conflicts: Tally<'final' | 'resumed' | 'key-conflict'>;
  /** Those of them that came again, whether or not something was left to do. */
  caught: Tally<'ledger'>;
  /** Payments of one statement. */
  statementRows: Histogram;
  /** Time that one statement took, its commit included. */
  statementSeconds: Durations<'done' | 'failed'>;
};

/** What the worker counts of the provider. */
export type ProviderMetrics = {
  /** Attempts to charge a card, by outcome. */
  charges: Tally<AttemptOutcomeName>;
  /** Attempts to give a refund back at the provider, by outcome. */
  refunds: Tally<AttemptOutcomeName>;
  /** Pending transactions handled by the resolver, by outcome. */
  resolved: Tally<'settled' | 'waiting' | 'unknown' | 'taken-over' | 'stuck' | 'failed'>;
  /** Calls that were sent, seconds. */
  calls: Histogram<'provider' | 'call' | 'outcome'>;
  /** 1 while calls are given up unsent, because a provider is in trouble. */
  circuitOpen: Gauge<'provider'>;
  /** Looks at transactions that come to no end before a person has acted, by reason. */
  stuck: Tally<StuckReason>;
  /** Webhooks from the provider, by outcome. */
  providerEvents: Tally<ProviderEventOutcome>;
  /** Webhooks by which a refund failed that had succeeded: above 0 a person has to act. */
  refundsUndone: Counter;
  /** Webhooks of money at the provider for a payment that had ended without it: as above. */
  paidAfterEnd: Counter;
  /**
   * How long ago a transaction was accepted of which nobody knows what came of it at the provider,
   * each time that it was looked at and left so, in seconds.
   */
  unknownAge: Histogram;
};

/** What the worker counts. */
export type WorkerMetrics = RecordMetrics &
  ProviderMetrics & {
    /** Standbys of the ledger that no commit waits for: a failover to one may lose payments. */
    asynchronousStandbys: Gauge;
    /** 1 while the ledger lacks what was told, so that nothing is decided. */
    setBack: Gauge;
  };

/** Registers the worker's metrics. */
export function workerMetrics(registry: Registry): WorkerMetrics {
  const asynchronousStandbys = new Gauge({
    name: 'triplock_worker_asynchronous_standbys',
    help: 'Standbys of the ledger that commits do not wait for: a failover may lose payments.',
    registers: [registry],
  });
  const setBack = new Gauge({
    name: 'triplock_worker_ledger_set_back',
    help: '1 while the ledger lacks what partners were told: nothing is decided before rewind.',
    registers: [registry],
  });
  return {
    ...recordMetrics(registry),
    ...providerMetrics(registry),
    asynchronousStandbys,
    setBack,
  };
}

function recordMetrics(registry: Registry): RecordMetrics {
  const registers = [registry];
  return {
    records: new Tally({
      name: 'triplock_worker_records_total',
      help: 'Records of the accepted topic, by outcome.',
      label: 'outcome',
      values: recordOutcomes,
      registers,
    }),
    batchSeconds: new Durations({
      name: 'triplock_worker_batch_seconds',
      help: 'Time from receiving a batch until its offset may be committed. failed: redelivered.',
      buckets: usualBuckets,
      outcomes: ['settled', 'failed'],
      registers,
    }),
    recordAge: new Histogram({
      name: 'triplock_worker_record_age_seconds',
      help: 'Time since acceptance of the oldest record in each batch, when the batch was finished.',
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3_600],
      registers,
    }),
    lag: new Gauge({
      name: 'triplock_worker_lag_records',
      help: 'Records in the partitions of this worker that it has not finished.',
      labelNames: ['partition'],
      registers,
    }),
    ahead: new Counter({
      name: 'triplock_worker_ahead_total',
      help: 'Payments done before their turn, the first of each partner, while a backlog was read.',
      registers,
    }),
    joins: groupJoins(registry, { accepted: 0 }),
    lost: new Counter({
      name: 'triplock_worker_lost_records_total',
      help: 'Offsets that Kafka lost before any worker read them, as found at joining the group.',
      registers,
    }),
    conflicts: new Tally({
      name: 'triplock_worker_conflicts_total',
      help: 'Records whose txn_id was already in the ledger: final, resumed, or of another request.',
      label: 'outcome',
      values: { final: 0, resumed: 0, 'key-conflict': 0 },
      registers,
    }),
    caught: duplicatesCaught(registry, 'ledger'),
    statementRows: new Histogram({
      name: 'triplock_worker_post_rows',
      help: 'Payments posted by one statement.',
      buckets: [1, 5, 20, 50, 100, 200, 350, 500],
      registers,
    }),
    statementSeconds: new Durations({
      name: 'triplock_worker_post_seconds',
      help: 'Duration of one posting statement, including its commit.',
      buckets: usualBuckets,
      outcomes: ['done', 'failed'],
      registers,
    }),
  };
}

const recordOutcomes = {
  posted: 0,
  resumed: 0,
  'already-recorded': 0,
  charged: 0,
  declined: 0,
  'handed-over': 0,
  ...zeroOfEach(followUpKinds.flatMap((kind) => Object.values(followUpOutcomes[kind]))),
  refused: 0,
  unpostable: 0,
  'key-conflict': 0,
} as const;

function zeroOfEach<Name extends string>(names: readonly Name[]): Record<Name, 0> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, 0>;
}

function providerMetrics(registry: Registry): ProviderMetrics {
  const registers = [registry];
  const attempts = (name: string, help: string) => {
    const ended = { succeeded: 0, failed: 0 } as const;
    const values = { ...ended, waiting: 0, unknown: 0, 'taken-over': 0, stuck: 0 } as const;
    return new Tally<AttemptOutcomeName>({ name, help, label: 'outcome', values, registers });
  };
  return {
    charges: attempts('triplock_worker_charges_total', 'Attempts to charge a card, by outcome.'),
    refunds: attempts(
      'triplock_worker_refunds_total',
      'Attempts to give a refund back, to capture or to cancel at the provider, by outcome.',
    ),
    resolved: new Tally({
      name: 'triplock_worker_resolved_total',
      help: 'Pending transactions handled by the resolver, by outcome.',
      label: 'outcome',
      values: { settled: 0, waiting: 0, unknown: 0, 'taken-over': 0, stuck: 0, failed: 0 },
      registers,
    }),
    calls: callsHistogram(registry),
    circuitOpen: circuitGauge(registry),
    stuck: new Tally<StuckReason>({
      name: 'triplock_worker_stuck_total',
      help: 'Looks at transactions that come to no end before a person has acted, by reason.',
      label: 'reason',
      values: { unreadable: 0, unstorable: 0, refused: 0 },
      registers,
    }),
    ...webhookCounters(registry),
    unknownAge: new Histogram({
      name: 'triplock_worker_unknown_age_seconds',
      help: 'Age of transactions whose outcome at the provider was still unknown when checked.',
      buckets: [1, 10, 60, 600, 3_600, 21_600, 86_400],
      registers,
    }),
  };
}

const callOutcomes: readonly CallOutcome[] = ['answered', 'turned-away', 'unknown'];

/** Its buckets go up to the time after which a call is given up. */
function callsHistogram(registry: Registry): ProviderMetrics['calls'] {
  const calls = new Histogram({
    name: 'triplock_worker_provider_call_seconds',
    help: 'Duration of calls sent to a provider. turned-away: it had too many; unknown: whether it took effect is not known.',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    labelNames: ['provider', 'call', 'outcome'],
    registers: [registry],
  });
  for (const provider of providerNames) {
    for (const call of Object.values(callLabels)) {
      for (const outcome of callOutcomes) calls.zero({ provider, call, outcome });
    }
  }
  return calls;
}

function circuitGauge(registry: Registry): ProviderMetrics['circuitOpen'] {
  const open = new Gauge({
    name: 'triplock_worker_provider_circuit_open',
    help: '1 while calls to a provider are suspended because it is failing.',
    labelNames: ['provider'],
    registers: [registry],
  });
  for (const provider of providerNames) open.set({ provider }, 0);
  return open;
}

/** What calls of the provider are named in metrics. */
export const callLabels: Readonly<Record<ProviderCall, string>> = {
  charge: 'charge',
  transactionOf: 'transaction-of',
  createIntent: 'create-intent',
  findIntent: 'find-intent',
  confirmIntent: 'confirm-intent',
  readIntent: 'read-intent',
  captureIntent: 'capture-intent',
  cancelIntent: 'cancel-intent',
  refund: 'refund',
  findRefund: 'find-refund',
  listRefunds: 'list-refunds',
  listDisputes: 'list-disputes',
};

function webhookCounters(registry: Registry) {
  const registers = [registry];
  const ours = { woken: 0, disputed: 0, 'dispute-ended': 0, duplicate: 0 } as const;
  const genuine = {
    'nothing-waits': 0,
    ...ours,
    'other-currency': 0,
    ignored: 0,
    foreign: 0,
  } as const;
  return {
    providerEvents: new Tally({
      name: 'triplock_worker_provider_events_total',
      help: 'Webhooks from the provider, by outcome.',
      label: 'outcome',
      values: { ...genuine, forged: 0, 'too-large': 0, aborted: 0 },
      registers,
    }),
    refundsUndone: new Counter({
      name: 'triplock_worker_refunds_undone_total',
      help: 'Webhooks that report a refund as failed after it had succeeded: a person has to act.',
      registers,
    }),
    paidAfterEnd: new Counter({
      name: 'triplock_worker_paid_after_end_total',
      help: 'Webhooks of money at the provider for a payment that had ended without: a person has to act.',
      registers,
    }),
  };
}
