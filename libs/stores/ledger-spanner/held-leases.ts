import type { SpannerTransaction } from './spanner/transaction.ts';
import type { BucketLease } from '@triplock/ledger';

const leasesSql = `
  SELECT bucket, epoch FROM outbox_leases
  WHERE bucket IN UNNEST(@buckets) AND expires_at > CURRENT_TIMESTAMP()`;

/**
 * The epochs under which buckets are leased now. Read in a transaction, a lease cannot pass on
 * before its commit.
 */
export async function heldLeases(
  reader: Pick<SpannerTransaction, 'query'>,
  leases: readonly Pick<BucketLease, 'bucket'>[],
): Promise<Map<number, bigint>> {
  const buckets = [...new Set(leases.map(({ bucket }) => bucket))];
  const rows = await reader.query<{ bucket: bigint; epoch: bigint }>(leasesSql, { buckets });
  return new Map(rows.map(({ bucket, epoch }) => [Number(bucket), epoch]));
}
