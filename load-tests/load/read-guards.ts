import { askAdmin, sumSeries, type System } from '@triplock/demo';

/** Duplicates that each guard has caught since its processes started. */
export type GuardCounts = {
  /** Guard 1: answered by the stored answer, or told that the key is in use. */
  atClaims: number;
  /** Guard 2: records of transactions that were final. */
  atLedger: number;
  /** Guard 3: events that the inbox knew. */
  atInbox: number;
};

type Series = { service: 'ingest-gateway' | 'ledger-worker' | 'partner-notifier'; name: string };

const payments: Series = { service: 'ingest-gateway', name: 'triplock_gateway_payments_total' };
const refunds: Series = { service: 'ingest-gateway', name: 'triplock_gateway_refunds_total' };
const ledger: Series = { service: 'ledger-worker', name: 'triplock_worker_records_total' };
const inbox: Series = { service: 'partner-notifier', name: 'triplock_notifier_events_total' };

/** Asks every replica. */
export async function readGuards(system: Pick<System, 'replicas'>): Promise<GuardCounts> {
  const count = async ({ service, name }: Series, outcome: string) => {
    const texts = system.replicas(service).map(async (each) => {
      return (await askAdmin(each, { path: '/metrics' })).text();
    });
    const counts = (await Promise.all(texts)).map((text) =>
      sumSeries(text, { name, labels: { outcome } }),
    );
    return counts.reduce((total, each) => total + each, 0);
  };
  const atClaims = [payments, refunds].flatMap((series) =>
    ['replayed', 'in-flight'].map((outcome) => count(series, outcome)),
  );
  return {
    atClaims: (await Promise.all(atClaims)).reduce((total, each) => total + each, 0),
    atLedger: await count(ledger, 'already-recorded'),
    atInbox: await count(inbox, 'duplicate'),
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
