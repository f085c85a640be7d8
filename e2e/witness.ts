import { openDatabase, type Database } from '@triplock/postgres';
import type { Endpoints } from '@triplock/infra';

/** A webhook as the catcher received it. */
export type CaughtWebhook = {
  id: string;
  partner: string;
  verified: boolean;
  attempts: number;
  body: { type: string; sequence?: number; data: Record<string, unknown> };
};

/** How often one payment is found in each place. */
export type Sightings = {
  ledger: number;
  entries: number;
  outbox: number;
  published: number;
  inbox: number;
  deliveries: number;
};

/** Looks into the system from outside, by SQL and HTTP; it changes nothing. */
export type Witness = {
  sightings(txnId: string): Promise<Sightings>;
  /** Ids that the ledger has, of those given. */
  inLedger(txnIds: readonly string[]): Promise<Set<string>>;
  ledgerCount(partner: string): Promise<number>;
  webhooks(txnId: string): Promise<CaughtWebhook[]>;
  database: Database;
  close(): Promise<void>;
};

const sightingsSql = `
  SELECT (SELECT count(*) FROM ledger.transactions WHERE txn_id = $1)::int AS ledger,
         (SELECT count(*) FROM ledger.entries WHERE txn_id = $1)::int AS entries,
         (SELECT count(*) FROM ledger.outbox WHERE txn_id = $1)::int AS outbox,
         (SELECT count(*) FROM auditor.published WHERE txn_id = $1)::int AS published,
         (SELECT count(*) FROM notifier.inbox WHERE payment_id = $1)::int AS inbox,
         (SELECT count(*) FROM notifier.deliveries WHERE txn_id = $1)::int AS deliveries`;

/** A witness of a running system. */
export function witness(system: Endpoints): Witness {
  const database = openDatabase({
    url: system.postgres,
    applicationName: 'e2e',
    connectionsMax: 2,
    onIdleError: () => undefined, // Tests that stop PostgreSQL break idle connections on purpose.
  });
  return {
    database,
    sightings: async (txnId) => (await database.query<Sightings>(sightingsSql, [txnId]))[0]!,
    inLedger: async (txnIds) => {
      const sql = 'SELECT txn_id FROM ledger.transactions WHERE txn_id = ANY($1::uuid[])';
      const rows = await database.query<{ txn_id: string }>(sql, [txnIds]);
      return new Set(rows.map((row) => row.txn_id));
    },
    ledgerCount: async (partner) => {
      const sql = 'SELECT count(*)::int AS n FROM ledger.transactions WHERE partner_id = $1';
      return (await database.query<{ n: number }>(sql, [partner]))[0]!.n;
    },
    webhooks: async (txnId) => {
      const received = await fetch(`${system.catcher}/received`);
      const all = (await received.json()) as CaughtWebhook[];
      return all.filter((each) => each.body.data['id'] === txnId);
    },
    close: () => database.close(),
  };
}
