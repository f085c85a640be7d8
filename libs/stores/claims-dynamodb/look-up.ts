import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import type { Cold } from '@triplock/claims';
import type { Table } from './connect-dynamo.ts';
import type { Item } from './item.ts';
import { coldness } from './read-marker.ts';

/** How claims lie in the table, and their times in milliseconds. */
export type Layout = { namespace: string; leaseMs: number; lifeMs: number };

/** The key of a claim's record. */
export function recordOf({ namespace }: Layout, txnId: TxnId): string {
  return `${namespace}#claim#${txnId}`;
}

/** The key of a bucket's warm marker. */
export function markerOf({ namespace }: Layout, bucket: number): string {
  return `${namespace}#marker#${bucket}`;
}

/**
 * What is known of an id: its record, if it lives or not, and what its bucket's silence is worth.
 */
export async function lookUp(
  table: Table,
  layout: Layout,
  txnId: TxnId,
): Promise<{ record: Item | undefined; cold: Cold | undefined }> {
  const [record, marker, tableId] = await Promise.all([
    table.get(recordOf(layout, txnId)),
    table.get(markerOf(layout, bucketOf(txnId, bucketCount))),
    table.tableId(),
  ]);
  const { lifeMs } = layout;
  return { record, cold: coldness(marker, { tableId, lifeMs, now: table.now() }) };
}
