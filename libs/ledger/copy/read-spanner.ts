import type { Moment } from '@triplock/spanner';
import type { TransactionRow } from '../spanner/transaction-row.ts';
import type { SliceBound } from './choose-slice.ts';

/** Rows that changed last after some time, by their ids. */
export type Changed = {
  rows: readonly { id: string; micros: bigint }[];
  /** When the last of those was changed that a shard or bucket gave where it may have more. */
  fullPartEnds: readonly bigint[];
};

const [transactionShards, outboxBuckets] = [16, 64];

const transactionsSql = `
  SELECT changed.*
  FROM UNNEST(GENERATE_ARRAY(0, ${transactionShards - 1})) AS wanted_shard,
    UNNEST(ARRAY(
      SELECT AS STRUCT txn_id AS id, shard AS part, UNIX_MICROS(changed_at) AS micros
      FROM transactions@{FORCE_INDEX=transactions_by_change}
      WHERE shard = wanted_shard AND changed_at > TIMESTAMP_MICROS(@sinceMicros)
      ORDER BY changed_at LIMIT @partRows
    )) AS changed`;

const eventsSql = `
  SELECT changed.*
  FROM UNNEST(GENERATE_ARRAY(0, ${outboxBuckets - 1})) AS wanted_bucket,
    UNNEST(ARRAY(
      SELECT AS STRUCT event_id AS id, bucket AS part, UNIX_MICROS(changed_at) AS micros
      FROM outbox@{FORCE_INDEX=outbox_by_change}
      WHERE bucket = wanted_bucket AND changed_at > TIMESTAMP_MICROS(@sinceMicros)
      ORDER BY changed_at LIMIT @partRows
    )) AS changed`;

/** Which transactions changed, those of each shard that changed first; from the index alone. */
export function changedTransactions(moment: Moment, bound: SliceBound): Promise<Changed> {
  return readChanged(moment, { ...bound, sql: transactionsSql, parts: transactionShards });
}

/** Which events changed, those of each bucket that changed first; from the index alone. */
export function changedEvents(moment: Moment, bound: SliceBound): Promise<Changed> {
  return readChanged(moment, { ...bound, sql: eventsSql, parts: outboxBuckets });
}

type Asked = SliceBound & { sql: string; parts: number };

async function readChanged(
  moment: Moment,
  { sinceMicros, rowsMax, sql, parts }: Asked,
): Promise<Changed> {
  const partRows = Math.ceil(rowsMax / parts);
  type Row = { id: string; part: bigint; micros: bigint };
  const rows = await moment.query<Row>(sql, { sinceMicros, partRows });
  const full = [...Map.groupBy(rows, ({ part }) => part).values()].filter(
    (part) => part.length === partRows,
  );
  const fullPartEnds = full.map((part) =>
    part.reduce((end, { micros }) => (micros > end ? micros : end), 0n),
  );
  return { rows, fullPartEnds };
}

/** Transactions by their ids. */
export function transactionsOf(moment: Moment, ids: readonly string[]): Promise<TransactionRow[]> {
  return moment.query('SELECT * FROM transactions WHERE txn_id IN UNNEST(@ids)', { ids });
}

/** The entries of transactions. */
export function entriesOf(moment: Moment, ids: readonly string[]): Promise<object[]> {
  return moment.query('SELECT * FROM entries WHERE txn_id IN UNNEST(@ids)', { ids });
}

/** Events by their ids. */
export function eventsOf(
  moment: Moment,
  ids: readonly string[],
): Promise<{ txn_id: string; payment_id: string }[]> {
  const sql = `
    SELECT *, UNIX_MICROS(created_at) AS order_id FROM outbox WHERE event_id IN UNNEST(@ids)`;
  return moment.query(sql, { ids });
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
