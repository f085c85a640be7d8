import { Counter, Histogram, type Registry } from '@triplock/runtime';

/** What the worker counts. */
export type WorkerMetrics = {
  /** Records by what they came to; a redelivered record counts again. */
  records: Counter<'outcome'>;
  /** Attempts to charge a card by what they came to. */
  charges: Counter<'outcome'>;
  /** Attempts to give a refund back at the provider by what they came to. */
  refunds: Counter<'outcome'>;
  /** Pending transactions that the resolver looked after, by what came of it. */
  resolved: Counter<'outcome'>;
  /** Webhooks of the provider by what they came to. */
  providerEvents: Counter<'outcome'>;
  /** Webhooks by which a refund failed that had succeeded: above 0 a person has to act. */
  refundsUndone: Counter;
  /**
   * How long ago a transaction was accepted of which nobody knows what came of it at the provider,
   * each time that it was looked at and left so, in seconds.
   */
  unknownAge: Histogram;
  /** Payments of one statement. */
  statementRows: Histogram;
  /** Time that one statement took, its commit included. */
  statementSeconds: Histogram;
};

/** Registers the worker's metrics. */
export function workerMetrics(registry: Registry): WorkerMetrics {
  const registers = [registry];
  return {
    records: new Counter({
      name: 'triplock_worker_records_total',
      help: 'Records of the accepted topic by what they came to.',
      labelNames: ['outcome'],
      registers,
    }),
    charges: new Counter({
      name: 'triplock_worker_charges_total',
      help: 'Attempts to charge a card by what they came to.',
      labelNames: ['outcome'],
      registers,
    }),
    refunds: new Counter({
      name: 'triplock_worker_refunds_total',
      help: 'Attempts to give a refund back at the provider by what they came to.',
      labelNames: ['outcome'],
      registers,
    }),
    resolved: new Counter({
      name: 'triplock_worker_resolved_total',
      help: 'Pending transactions that the resolver looked after, by what came of it.',
      labelNames: ['outcome'],
      registers,
    }),
    providerEvents: new Counter({
      name: 'triplock_worker_provider_events_total',
      help: 'Webhooks of the provider by what they came to.',
      labelNames: ['outcome'],
      registers,
    }),
    refundsUndone: new Counter({
      name: 'triplock_worker_refunds_undone_total',
      help: 'Webhooks by which a refund failed that had succeeded: a person has to act.',
      registers,
    }),
    unknownAge: new Histogram({
      name: 'triplock_worker_unknown_age_seconds',
      help: 'Age of transactions whose outcome at the provider was unknown when looked at.',
      buckets: [1, 10, 60, 600, 3_600, 21_600, 86_400],
      registers,
    }),
    statementRows: new Histogram({
      name: 'triplock_worker_post_rows',
      help: 'Payments posted by one statement.',
      buckets: [1, 5, 20, 50, 100, 200, 350, 500],
      registers,
    }),
    statementSeconds: new Histogram({
      name: 'triplock_worker_post_seconds',
      help: 'Time that one posting statement took, its commit included.',
      buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10],
      registers,
    }),
  };
}
