import type { Moment } from '@triplock/spanner';
import type { TransactionRow } from '../spanner/transaction-row.ts';

/** Where a walk through what changed is: behind a row that was written at that time. */
export type Position = { micros: bigint; id: string };

/** What changed behind a position, and how many rows of it at once. */
export type ChangedRequest = { from: Position; pageRows: number };

/** A page of rows that changed, and where the next one begins; nowhere, when this was the last. */
export type ChangedPage<Row> = { rows: Row[]; next: Position | undefined };

const behind = (id: string) => `
  (changed_at > TIMESTAMP_MICROS(@micros) OR (changed_at = TIMESTAMP_MICROS(@micros) AND ${id} > @id))`;

const transactionsSql = `
  SELECT changed.*, UNIX_MICROS(changed.changed_at) AS micros
  FROM UNNEST(GENERATE_ARRAY(0, 15)) AS wanted_shard,
    UNNEST(ARRAY(
      SELECT AS STRUCT * FROM transactions@{FORCE_INDEX=transactions_by_change}
      WHERE shard = wanted_shard AND ${behind('txn_id')}
      ORDER BY changed_at, txn_id LIMIT @pageRows
    )) AS changed
  ORDER BY changed.changed_at, changed.txn_id LIMIT @pageRows`;

const eventsSql = `
  SELECT
    changed.*, UNIX_MICROS(changed.created_at) AS order_id,
    UNIX_MICROS(changed.changed_at) AS micros
  FROM UNNEST(GENERATE_ARRAY(0, 63)) AS wanted_bucket,
    UNNEST(ARRAY(
      SELECT AS STRUCT * FROM outbox@{FORCE_INDEX=outbox_by_change}
      WHERE bucket = wanted_bucket AND ${behind('event_id')}
      ORDER BY changed_at, event_id LIMIT @pageRows
    )) AS changed
  ORDER BY changed.changed_at, changed.event_id LIMIT @pageRows`;

/** Transactions that changed behind a position, as of the moment. */
export async function changedTransactions(
  moment: Moment,
  request: ChangedRequest,
): Promise<ChangedPage<TransactionRow>> {
  const rows = await read<TransactionRow>(moment, transactionsSql, request);
  const last = fullPageEnd(rows, request);
  return { rows, next: last && { micros: last.micros, id: last.txn_id } };
}

/** Events that changed behind a position, as of the moment. */
export async function changedEvents(
  moment: Moment,
  request: ChangedRequest,
): Promise<ChangedPage<{ event_id: string }>> {
  const rows = await read<{ event_id: string }>(moment, eventsSql, request);
  const last = fullPageEnd(rows, request);
  return { rows, next: last && { micros: last.micros, id: last.event_id } };
}

function read<Row>(moment: Moment, sql: string, { from, pageRows }: ChangedRequest) {
  return moment.query<Row & { micros: bigint }>(sql, { ...from, pageRows });
}

/** The last row of a page behind which there may be more. */
function fullPageEnd<Row>(rows: readonly Row[], { pageRows }: ChangedRequest): Row | undefined {
  return rows.length < pageRows ? undefined : rows.at(-1);
}

/** The entries of transactions. */
export function entriesOf(moment: Moment, ids: readonly string[]): Promise<object[]> {
  return moment.query('SELECT * FROM entries WHERE txn_id IN UNNEST(@ids)', { ids });
}

/** What has left the outbox; nothing, as long as no reaper took anything out. */
export async function horizonOf(
  moment: Moment,
): Promise<{ events: bigint; kept_for_ms: bigint } | undefined> {
  const sql = 'SELECT events, kept_for_ms FROM outbox_horizon WHERE only_row';
  const [horizon] = await moment.query<{ events: bigint; kept_for_ms: bigint }>(sql);
  return horizon;
}

/** How many rows there are, and what the entries come to. It reads both tables whole. */
export async function countRows(
  moment: Moment,
): Promise<{ transactions: bigint; entries: bigint; moved: bigint }> {
  const sql = `
    SELECT
      (SELECT COUNT(*) FROM transactions) AS transactions,
      (SELECT COUNT(*) FROM entries) AS entries,
      (SELECT COALESCE(SUM(amount), 0) FROM entries) AS moved`;
  const [row] = await moment.query<{ transactions: bigint; entries: bigint; moved: bigint }>(sql);
  return row!;
}
