import { type LedgerNow, openLedgerNow } from '@triplock/demo';
import type { Endpoints } from '@triplock/launcher';
import { type Database, openForCommand } from '@triplock/postgres';

/** A webhook as the catcher received it. */
export type CaughtWebhook = {
  id: string;
  partner: string;
  verified: boolean;
  attempts: number;
  body: { type: string; sequence?: number; data: Record<string, unknown> };
};

/** How often one payment is found in each layer. */
type LayerCounts = {
  ledger: number;
  entries: number;
  outbox: number;
  published: number;
  inbox: number;
  deliveries: number;
};

/** Looks into the system from outside, by SQL and HTTP. */
export type Recorder = {
  counts(txnId: string): Promise<LayerCounts>;
  /** Ids that the ledger has, of those given. */
  inLedger(txnIds: readonly string[]): Promise<Set<string>>;
  ledgerCount(partner: string): Promise<number>;
  webhooks(txnId: string): Promise<CaughtWebhook[]>;
  /** Everything but the ledger. */
  database: Database;
  /** The ledger as it is now, with everything else, wherever it is kept. */
  ledger: LedgerNow;
  close(): Promise<void>;
};

const countsSql = `
  SELECT (SELECT count(*) FROM ledger.transactions WHERE txn_id = $1)::int AS ledger,
         (SELECT count(*) FROM ledger.entries WHERE txn_id = $1)::int AS entries,
         (SELECT count(*) FROM ledger.outbox WHERE txn_id = $1)::int AS outbox,
         (SELECT count(*) FROM auditor.published WHERE txn_id = $1)::int AS published,
         (SELECT count(*) FROM notifier.inbox WHERE ordering_key = $1)::int AS inbox,
         (SELECT count(*) FROM notifier.deliveries WHERE txn_id = $1)::int AS deliveries`;

/** Opens a recorder of a running system. */
export function openRecorder(system: Endpoints): Recorder {
  const database = openForCommand({
    url: system.postgres,
    applicationName: 'e2e',
    connectionsMax: 2,
  });
  const ledger = openLedgerNow(system, database);
  return {
    database,
    ledger,
    counts: async (txnId) => (await ledger.query<LayerCounts>(countsSql, [txnId]))[0]!,
    inLedger: async (txnIds) => {
      const sql = 'SELECT txn_id FROM ledger.transactions WHERE txn_id = ANY($1::uuid[])';
      const rows = await ledger.query<{ txn_id: string }>(sql, [txnIds]);
      return new Set(rows.map((row) => row.txn_id));
    },
    ledgerCount: async (partner) => {
      const sql = 'SELECT count(*)::int AS n FROM ledger.transactions WHERE partner_id = $1';
      return (await ledger.query<{ n: number }>(sql, [partner]))[0]!.n;
    },
    webhooks: async (txnId) => {
      const received = await fetch(`${system.catcher}/received`);
      const all = (await received.json()) as CaughtWebhook[];
      return all.filter((each) => each.body.data['id'] === txnId);
    },
    close: async () => {
      await Promise.all([ledger.close(), database.close()]);
    },
  };
}
