import { loadSql } from '@triplock/postgres';
import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { ListOutcome, ListRequest } from '@triplock/ledger';
import { readTransaction } from './read-rows.ts';
import { paymentFrom, type TransactionRow } from './transaction-row.ts';

const listSql = loadSql(import.meta.url, 'list.sql');

/** The page after a payment, or the first one. */
export async function listPayments(
  database: SpannerDatabase,
  { partnerId, limit, after, state, reference }: ListRequest,
): Promise<ListOutcome> {
  let before: Date | undefined;
  if (after !== undefined) {
    const position = await readTransaction(database, after);
    if (position?.kind !== 'payment' || position.partner_id !== partnerId) {
      return { outcome: 'unknown-cursor' };
    }
    before = position.created_at;
  }
  const wish = { state, reference, before };
  const sql = listSql.replace('$INDEX', indexFor(wish)).replace('$FILTER', filterFor(wish));
  // One row more than asked for shows whether there is a next page.
  const rows = await database.query<TransactionRow>(sql, {
    ...{ partner: partnerId, limit: limit + 1, before, after, state, reference },
  });
  const payments = rows.slice(0, limit).map(paymentFrom);
  return { outcome: 'page', payments, hasMore: rows.length > limit };
}

type Wish = Pick<ListRequest, 'state' | 'reference'> & { before: Date | undefined };

const isUnusual = (state: Wish['state']) => state !== undefined && state !== 'succeeded';

/** The index that holds the least of what is not wished for. */
function indexFor({ state, reference }: Wish): string {
  if (reference !== undefined) return 'payments_by_reference';
  return isUnusual(state) ? 'payments_not_succeeded' : 'payments_by_time';
}

function filterFor({ state, reference, before }: Wish): string {
  const filters = ['TRUE'];
  if (reference !== undefined) filters.push('reference = @reference');
  if (state !== undefined) filters.push('state = @state');
  if (isUnusual(state)) filters.push('unusual_state = @state');
  if (before !== undefined) {
    filters.push('(created_at < @before OR (created_at = @before AND txn_id < @after))');
  }
  return filters.join(' AND ');
}
