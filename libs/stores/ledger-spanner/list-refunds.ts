import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { RefundListOutcome, RefundListRequest } from '@triplock/ledger';
import { readTransaction } from './read-rows.ts';
import { paymentOfRefund, refundFrom, type TransactionRow } from './transaction-row.ts';

const hint = 'spanner_emulator.disable_query_null_filtered_index_check=true';
const listSql = (filter: string) => `
  SELECT * FROM transactions@{FORCE_INDEX=refunds_of_a_payment, ${hint}}
  WHERE payment_id = @paymentId AND partner_id = @partnerId AND ${filter}
  ORDER BY created_at DESC, txn_id DESC LIMIT @limit`;
const behind = '(created_at < @before OR (created_at = @before AND txn_id < @after))';

/** The page of a payment's refunds after one of them, or the first page. */
export async function listRefunds(
  database: SpannerDatabase,
  { paymentId, partnerId, limit, after }: RefundListRequest,
): Promise<RefundListOutcome> {
  let before: Date | undefined;
  if (after !== undefined) {
    const position = await readTransaction(database, after);
    const isTheirs = position?.payment_id === paymentId && position.partner_id === partnerId;
    if (!isTheirs) return { outcome: 'unknown-cursor' };
    before = position.created_at;
  }
  // One row more than asked for shows whether there is a next page.
  const wanted = { paymentId, partnerId, limit: limit + 1, before, after };
  const sql = listSql(before === undefined ? 'TRUE' : behind);
  const rows = await database.query<TransactionRow>(sql, wanted);
  const payment = rows.length === 0 ? undefined : await readTransaction(database, paymentId);
  const refunds = rows.slice(0, limit).map((row) => refundFrom(row, paymentOfRefund(row, payment)));
  return { outcome: 'page', refunds, hasMore: rows.length > limit };
}
