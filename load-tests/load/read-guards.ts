import { sumSeries, type System } from '@triplock/demo';
import { readMetrics } from '../read-metrics.ts';

/** Duplicates that each guard has caught since its processes started. */
export type GuardCounts = {
  /** Guard 1: answered by the stored answer, or told that the key is in use. */
  atClaims: number;
  /** Guard 2: records of transactions that were final. */
  atLedger: number;
  /** Guard 3: events that the inbox knew. */
  atInbox: number;
};

/** Asks every replica. */
export async function readGuards(system: Pick<System, 'replicas'>): Promise<GuardCounts> {
  const [gateways, workers, notifiers] = await Promise.all([
    readMetrics(system, 'ingest-gateway'),
    readMetrics(system, 'ledger-worker'),
    readMetrics(system, 'partner-notifier'),
  ]);
  const count = (texts: readonly string[], name: string, outcome: string) =>
    texts.reduce((total, text) => total + sumSeries(text, { name, labels: { outcome } }), 0);
  const atClaims = ['payments', 'refunds'].flatMap((kind) =>
    ['replayed', 'in-flight'].map((outcome) =>
      count(gateways, `triplock_gateway_${kind}_total`, outcome),
    ),
  );
  return {
    atClaims: atClaims.reduce((total, each) => total + each, 0),
    atLedger: count(workers, 'triplock_worker_records_total', 'already-recorded'),
    atInbox: count(notifiers, 'triplock_notifier_events_total', 'duplicate'),
  };
}

/** What they caught in between. */
export function grownGuards(before: GuardCounts, after: GuardCounts): GuardCounts {
  return {
    atClaims: after.atClaims - before.atClaims,
    atLedger: after.atLedger - before.atLedger,
    atInbox: after.atInbox - before.atInbox,
  };
}
