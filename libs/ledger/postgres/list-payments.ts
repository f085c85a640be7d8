import { loadSql, type Database } from '@triplock/postgres';
import type { ListOutcome, ListRequest } from '../ledger.ts';
import { paymentOf, type PaymentRow } from '../payment-row.ts';

const listSql = loadSql(import.meta.url, 'list.sql');
const positionSql = loadSql(import.meta.url, 'find-position.sql');

/** The page after a payment, or the first one. */
export async function listPayments(
  database: Database,
  { partnerId, limit, after, state, reference }: ListRequest,
): Promise<ListOutcome> {
  let position: { created_at: Date } | undefined;
  if (after !== undefined) {
    [position] = await database.query<{ created_at: Date }>(positionSql, [partnerId, after]);
    if (position === undefined) return { outcome: 'unknown-cursor' };
  }
  // One row more than asked for shows whether there is a next page.
  const rows = await database.query<PaymentRow>(listSql, [
    partnerId,
    limit + 1,
    position?.created_at,
    after,
    state,
    reference,
  ]);
  const payments = rows.slice(0, limit).map(paymentOf);
  return { outcome: 'page', payments, hasMore: rows.length > limit };
}
