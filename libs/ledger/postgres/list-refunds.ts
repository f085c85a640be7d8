import { loadSql, type Database } from '@triplock/postgres';
import type { RefundListOutcome, RefundListRequest } from '../refunds.ts';
import { refundOf, type RefundRow } from '../refund-row.ts';

const listSql = loadSql(import.meta.url, 'list-refunds.sql');
const positionSql = loadSql(import.meta.url, 'find-refund-position.sql');

/** The page after a refund, or the first one. */
export async function listRefunds(
  database: Database,
  { paymentId, partnerId, limit, after }: RefundListRequest,
): Promise<RefundListOutcome> {
  let position: { created_at: Date } | undefined;
  if (after !== undefined) {
    const asked = [paymentId, partnerId, after];
    [position] = await database.query<{ created_at: Date }>(positionSql, asked);
    if (position === undefined) return { outcome: 'unknown-cursor' };
  }
  // One row more than asked for shows whether there is a next page.
  const rows = await database.query<RefundRow>(listSql, [
    paymentId,
    partnerId,
    limit + 1,
    position?.created_at,
    after,
  ]);
  const refunds = rows.slice(0, limit).map(refundOf);
  return { outcome: 'page', refunds, hasMore: rows.length > limit };
}
