import type { ShownClaim } from '@triplock/claims';
import { lasting } from '@triplock/claims/test';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import type { Database } from '@triplock/postgres';

/** Loses what a namespace holds, as emptied tables do. */
export async function forgetRows(owner: Database, namespace: string): Promise<void> {
  for (const table of ['claims', 'claims_shown', 'claims_held', 'warm_markers']) {
    await owner.query(`DELETE FROM claims.${table} WHERE namespace = $1`, [namespace]);
  }
}

/** Makes a claim older: its lease, its life and what is shown of it end that much sooner. */
export async function ageRow(
  owner: Database,
  { namespace, txnId, ms }: { namespace: string; txnId: TxnId; ms: number },
): Promise<void> {
  await owner.query(
    `UPDATE claims.claims
     SET lease_until = lease_until - $3 * interval '1 ms',
         claimed_at = claimed_at - $3 * interval '1 ms',
         expires_at = expires_at - $3 * interval '1 ms'
     WHERE namespace = $1 AND txn_id = $2`,
    [namespace, txnId, ms],
  );
  await owner.query(
    `UPDATE claims.claims_shown SET expires_at = expires_at - $3 * interval '1 ms'
     WHERE namespace = $1 AND txn_id = $2`,
    [namespace, txnId, ms],
  );
}

/** What a claim's row takes, with its pointer in the page. */
export async function bytesOfRow(
  owner: Database,
  { namespace, txnId }: { namespace: string; txnId: TxnId },
): Promise<number> {
  const [row] = await owner.query<{ bytes: number }>(
    `SELECT pg_column_size(claims.*) + 4 AS bytes FROM claims.claims
     WHERE namespace = $1 AND txn_id = $2`,
    [namespace, txnId],
  );
  return row!.bytes;
}

/** Makes what is held of a claim's partner in its bucket older, as it is counted. */
export async function ageHeldRow(
  owner: Database,
  { namespace, claim, ms }: { namespace: string; claim: ShownClaim; ms: number },
): Promise<void> {
  await owner.query(
    `UPDATE claims.claims_held
     SET hour = hour - floor($4 / 3600000.0), stretch = stretch - floor($4 / $5::numeric)
     WHERE namespace = $1 AND partner = $2 AND bucket = $3`,
    [namespace, claim.partnerId, bucketOf(claim.txnId, bucketCount), ms, lasting.shownMs],
  );
}
