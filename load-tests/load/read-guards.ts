import { sumSeries, type System } from '@triplock/demo';
import { readMetrics } from '../read-metrics.ts';

/** Duplicates that each guard has caught since its processes started. */
export type GuardCounts = {
  /** Guard 1: answered by the stored answer, or told that the key is in use. */
  atClaims: number;
  /** Guard 2: records whose transaction was in the ledger. */
  atLedger: number;
  /** Guard 3: events that an inbox knew. */
  atInbox: number;
};

/** Asks every replica. */
export async function readGuards(system: Pick<System, 'replicas'>): Promise<GuardCounts> {
  const [gateways, workers, notifiers] = await Promise.all([
    readMetrics(system, 'ingest-gateway'),
    readMetrics(system, 'ledger-worker'),
    readMetrics(system, 'partner-notifier'),
  ]);
  return {
    atClaims: caught(gateways, 'claims'),
    atLedger: caught(workers, 'ledger'),
    atInbox: caught(notifiers, 'inbox'),
  };
}

function caught(texts: readonly string[], guard: string): number {
  const counter = { name: 'triplock_duplicates_caught_total', labels: { guard } };
  return texts.reduce((total, text) => total + sumSeries(text, counter), 0);
}

/** What they caught in between. */
export function grownGuards(before: GuardCounts, after: GuardCounts): GuardCounts {
  return {
    atClaims: after.atClaims - before.atClaims,
    atLedger: after.atLedger - before.atLedger,
    atInbox: after.atInbox - before.atInbox,
  };
}
