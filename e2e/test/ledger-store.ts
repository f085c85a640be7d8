import { commitTimestamp } from '@triplock/ledger-spanner';
import type { Setup } from './system.ts';

/** A live lease of a bucket, and the dispatcher that has it. */
export type Lease = { bucket: number; owner: string; epoch: bigint };

type Seeing = Pick<Setup, 'system' | 'look'>;

/** Live leases, by the ledger's own clock. */
export async function readLeases({ system, look }: Seeing): Promise<Lease[]> {
  switch (system.ledger) {
    case 'postgres':
      return look.database.query<Lease>(
        `SELECT bucket, split_part(owner, ':', 1) AS owner, epoch FROM ledger.outbox_leases
         WHERE owner IS NOT NULL AND expires_at > now()`,
      );
    case 'spanner': {
      const spanner = await look.ledger.spanner();
      const rows = await spanner.query<Lease>(
        `SELECT bucket, SPLIT(owner, ':')[OFFSET(0)] AS owner, epoch FROM outbox_leases
         WHERE owner IS NOT NULL AND expires_at > CURRENT_TIMESTAMP()`,
      );
      return rows.map((row) => ({ ...row, bucket: Number(row.bucket) }));
    }
    default:
      return system.ledger satisfies never;
  }
}

/** Has a transaction looked after now, as the time does. */
export async function makeDue({ system, look }: Seeing, txnId: string): Promise<void> {
  switch (system.ledger) {
    case 'postgres':
      await look.database.query(
        `UPDATE ledger.transactions SET due_at = now() WHERE txn_id = $1 AND state = 'pending'`,
        [txnId],
      );
      return;
    case 'spanner': {
      const sql = `
        SELECT txn_id, CURRENT_TIMESTAMP() AS due_at FROM transactions
        WHERE txn_id = @txnId AND state = 'pending'`;
      const spanner = await look.ledger.spanner();
      await spanner.transaction(async (tx) => {
        const rows = await tx.query<{ txn_id: string; due_at: Date }>(sql, { txnId });
        for (const row of rows) {
          const changed = { ...row, changed_at: commitTimestamp };
          tx.write({ kind: 'update', table: 'transactions', row: changed });
        }
      });
      return;
    }
    default:
      system.ledger satisfies never;
  }
}
