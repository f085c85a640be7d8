import { transactionColumns } from '@triplock/ledger';
import { transactionShards, type TransactionRow } from '../rows.ts';
import type { Moment } from '../spanner/database.ts';

/** Rows that changed last after some time, by their ids. */
type Changed = {
  rows: readonly { id: string; micros: bigint }[];
  /** When the last of those was changed that a shard or bucket gave where it may have more. */
  fullPartEnds: readonly bigint[];
};

const outboxBuckets = 64;

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
function changedTransactions(moment: Moment, bound: SliceBound): Promise<Changed> {
  return readChanged(moment, { ...bound, sql: transactionsSql, parts: transactionShards });
}

/** Which events changed, those of each bucket that changed first; from the index alone. */
function changedEvents(moment: Moment, bound: SliceBound): Promise<Changed> {
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

/** So many changes are looked up one by one; more are asked for by slices. */
const fewMax = 512;

/** All that changed after a time, by their ids, as long as it is little. */
async function fewChanged(
  moment: Moment,
  { sinceMicros, rowsMax }: SliceBound,
): Promise<{ transactionIds: string[]; eventIds: string[] } | undefined> {
  const limit = Math.min(fewMax, rowsMax);
  const after = timestampOf(sinceMicros);
  const since = (parts: number) => ({
    ranges: Array.from({ length: parts }, (_, part) => ({ prefix: [part], after })),
  });
  const transactions = await moment.read<{ txn_id: string }>({
    table: 'transactions',
    index: 'transactions_by_change',
    columns: ['txn_id'],
    keys: since(transactionShards),
    limit,
  });
  const events = await moment.read<{ event_id: string }>({
    table: 'outbox',
    index: 'outbox_by_change',
    columns: ['event_id'],
    keys: since(outboxBuckets),
    limit,
  });
  if (Math.max(transactions.length, events.length) === limit) return undefined;
  return {
    transactionIds: transactions.map(({ txn_id }) => txn_id),
    eventIds: events.map(({ event_id }) => event_id),
  };
}

/** To the microsecond, which a Date does not hold. */
function timestampOf(micros: bigint): string {
  const seconds = new Date(Number(micros / 1_000_000n) * 1_000).toISOString().slice(0, 19);
  return `${seconds}.${String(micros % 1_000_000n).padStart(6, '0')}Z`;
}

// What a customer has to do leaves the ledger for the gateway alone.
const copiedColumns = transactionColumns.filter((column) => column !== 'next_action');

/** Transactions by their ids, without what their customers have to do. */
export function transactionsOf(moment: Moment, ids: readonly string[]): Promise<TransactionRow[]> {
  return moment.read({ table: 'transactions', columns: copiedColumns, keys: keysOf(ids) });
}

/** The entries of transactions. */
export function entriesOf(moment: Moment, ids: readonly string[]): Promise<object[]> {
  const columns = ['txn_id', 'debit_account', 'credit_account', 'amount', 'currency', 'created_at'];
  return moment.read({ table: 'entries', columns, keys: keysOf(ids) });
}

/** The disputes of transactions: they change with their payment, which brings them along. */
export function disputesOf(moment: Moment, ids: readonly string[]): Promise<object[]> {
  const sql = `
    SELECT txn_id, dispute_id, id, partner_id, sequence, amount, reason, evidence_due_by, created_at
    FROM disputes
    WHERE txn_id IN UNNEST(@ids)`;
  return moment.query(sql, { ids });
}

/** How those of them ended that have. */
export function disputeEndsOf(moment: Moment, ids: readonly string[]): Promise<object[]> {
  const sql = `
    SELECT txn_id, dispute_id, ended, ended_at FROM dispute_ends WHERE txn_id IN UNNEST(@ids)`;
  return moment.query(sql, { ids });
}

const keysOf = (ids: readonly string[]) => ids.map((id) => [id]);

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

/** How many rows each table has that is copied whole, and what the entries come to. */
export type RowCounts = Record<
  'transactions' | 'entries' | 'disputes' | 'dispute_ends' | 'moved',
  bigint
>;

/** Counts the ledger's rows. It reads the tables whole. */
export async function countRows(moment: Moment): Promise<RowCounts> {
  const sql = `
    SELECT
      (SELECT COUNT(*) FROM transactions) AS transactions,
      (SELECT COUNT(*) FROM entries) AS entries,
      (SELECT COUNT(*) FROM disputes) AS disputes,
      (SELECT COUNT(*) FROM dispute_ends) AS dispute_ends,
      (SELECT COALESCE(SUM(amount), 0) FROM entries) AS moved`;
  const [row] = await moment.query<RowCounts>(sql);
  return row!;
}

/** What is copied in one transaction: all that was changed last in a span of time. */
export type Slice = {
  transactionIds: readonly string[];
  eventIds: readonly string[];
  /** The end of the span. */
  untilMicros: bigint;
  /** Rows were changed after it, and are copied by later slices. */
  moreFollows: boolean;
};

/** Where a slice begins, and about how many rows of each table it has. */
type SliceBound = { sinceMicros: bigint; rowsMax: number };

/**
 * Chooses the next slice as of a moment: up to the moment itself, unless more rows were changed
 * than a slice has. It ends between two times of commit, so no commit is parted.
 */
export async function chooseSlice(moment: Moment, bound: SliceBound): Promise<Slice> {
  const few = await fewChanged(moment, bound);
  if (few !== undefined) return { ...few, untilMicros: moment.readAtMicros, moreFollows: false };
  return chooseOfMany(moment, bound);
}

async function chooseOfMany(moment: Moment, bound: SliceBound): Promise<Slice> {
  const transactions = await changedTransactions(moment, bound);
  const events = await changedEvents(moment, bound);
  const ends = [...transactions.fullPartEnds, ...events.fullPartEnds];
  const moreFollows = ends.length > 0;
  // What a full part has behind its last row is not known, at the time of that row included.
  const untilMicros = moreFollows ? least(ends) - 1n : moment.readAtMicros;
  if (untilMicros <= bound.sinceMicros) {
    return chooseOfMany(moment, { ...bound, rowsMax: bound.rowsMax * 2 });
  }
  const upTo = ({ rows }: Changed) =>
    rows.filter(({ micros }) => micros <= untilMicros).map(({ id }) => id);
  return { transactionIds: upTo(transactions), eventIds: upTo(events), untilMicros, moreFollows };
}

function least(values: readonly bigint[]): bigint {
  return values.reduce((least, value) => (value < least ? value : least));
}
