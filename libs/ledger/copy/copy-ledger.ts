import { loadSql, type Database, type Queryable } from '@triplock/postgres';
import type { Moment, SpannerDatabase } from '@triplock/spanner';
import {
  changedEvents,
  changedTransactions,
  countRows,
  entriesOf,
  horizonOf,
  type ChangedPage,
  type ChangedRequest,
  type Position,
} from './read-spanner.ts';

const copyTransactionsSql = loadSql(import.meta.url, 'copy-transactions.sql');
const findDifferentSql = loadSql(import.meta.url, 'find-different-transactions.sql');
const copyEntriesSql = loadSql(import.meta.url, 'copy-entries.sql');
const copyEventsSql = loadSql(import.meta.url, 'copy-events.sql');
const compareRowsSql = loadSql(import.meta.url, 'compare-rows.sql');

/** A few megabytes at most, far below what one answer of Spanner may hold. */
const usualPageRows = 1_000;

/** Above what one call to Spanner may take, during which PostgreSQL sees a copier do nothing. */
const usualTurnMs = 15_000;

/** What was copied now. */
export type Copied = { transactions: number; events: number };

/** Brings a copy of the ledger up to now. */
export type CopyLedger = (how: {
  /** Whether rows are counted, too, which reads whole tables: what was deleted changes no row. */
  counting: boolean;
}) => Promise<Copied>;

/**
 * Copies a ledger in Spanner into the schema `ledger` of PostgreSQL, as the role `triplock_ledger`:
 * what was committed since the last time, all of it as of one moment, in one transaction. Several
 * copiers take turns, and PostgreSQL takes the turn from one that stands still.
 *
 * What a row may not become, such as another amount or another end, is not copied; it is recorded
 * in `ledger.copy_differences`, which the audit reads.
 */
export function copyLedgerFrom(
  spanner: SpannerDatabase,
  postgres: Database,
  { pageRows = usualPageRows, turnMs = usualTurnMs } = {},
): CopyLedger {
  return ({ counting }) =>
    postgres.transaction(async (tx) => {
      // Begun under the lock of the others, so that two never copy the same moment's changes.
      const since = await lockCopy(tx, turnMs);
      return spanner.snapshot(async (moment) => {
        const from = { from: { micros: since, id: '' }, pageRows };
        const transactions = await copyTransactions(tx, moment, from);
        const events = await copyEvents(tx, moment, from);
        await copyHorizon(tx, moment);
        if (counting) await compareCounts(tx, moment);
        await tx.query('UPDATE ledger.copied SET until_micros = $1', [moment.readAtMicros]);
        return { transactions, events };
      });
    });
}

async function lockCopy(tx: Queryable, turnMs: number): Promise<bigint> {
  await tx.query(`SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, [
    String(turnMs),
  ]);
  await tx.query('INSERT INTO ledger.copied (until_micros) VALUES (0) ON CONFLICT DO NOTHING');
  const sql = 'SELECT until_micros FROM ledger.copied FOR UPDATE';
  const [row] = await tx.query<{ until_micros: bigint }>(sql);
  return row!.until_micros;
}

function copyTransactions(tx: Queryable, moment: Moment, since: ChangedRequest): Promise<number> {
  const readPage = (request: ChangedRequest) => changedTransactions(moment, request);
  return copyPages(readPage, since, async (rows) => {
    const input = toJson(rows);
    await tx.query(copyTransactionsSql, [input]);
    await recordDifferences(tx, 'transaction', await tx.query(findDifferentSql, [input]));
    const ids = rows.map(({ txn_id }) => txn_id);
    const entries = await entriesOf(moment, ids);
    await recordDifferences(tx, 'entry', await tx.query(copyEntriesSql, [toJson(entries)]));
  });
}

function copyEvents(tx: Queryable, moment: Moment, since: ChangedRequest): Promise<number> {
  const readPage = (request: ChangedRequest) => changedEvents(moment, request);
  return copyPages(readPage, since, async (rows) => {
    await recordDifferences(tx, 'event', await tx.query(copyEventsSql, [toJson(rows)]));
  });
}

/** Keeps page after page of what changed, and tells how many rows that were. */
async function copyPages<Row>(
  readPage: (request: ChangedRequest) => Promise<ChangedPage<Row>>,
  { from, pageRows }: ChangedRequest,
  keep: (rows: readonly Row[]) => Promise<void>,
): Promise<number> {
  let copied = 0;
  for (let position: Position | undefined = from; position !== undefined;) {
    const { rows, next } = await readPage({ from: position, pageRows });
    if (rows.length > 0) await keep(rows);
    copied += rows.length;
    position = next;
  }
  return copied;
}

/**
 * Takes out of the copy what has left the outbox: the same function, asked for as many, oldest
 * first.
 */
async function copyHorizon(tx: Queryable, moment: Moment): Promise<void> {
  const horizon = await horizonOf(moment);
  if (horizon === undefined) return;
  const sql = 'SELECT events FROM ledger.outbox_horizon';
  const [known] = await tx.query<{ events: bigint }>(sql);
  const left = Number(horizon.events - known!.events);
  const keep = `SELECT ledger.reap_outbox($1::float8 * interval '1 millisecond', $2::integer)`;
  await tx.query(keep, [Number(horizon.kept_for_ms), left]);
}

async function compareCounts(tx: Queryable, moment: Moment): Promise<void> {
  const there = await countRows(moment);
  const [here] = await tx.query<typeof there>(compareRowsSql);
  const differing = (['transactions', 'entries', 'moved'] as const).filter(
    (figure) => there[figure] !== here![figure],
  );
  const found = differing.map((figure) => ({
    id: `${figure}: ${there[figure]} in the ledger, ${here![figure]} in its copy`,
  }));
  await recordDifferences(tx, 'rows', found);
}

async function recordDifferences(
  tx: Queryable,
  kind: 'transaction' | 'entry' | 'event' | 'rows',
  found: readonly object[],
): Promise<void> {
  if (found.length === 0) return;
  const sql = `
    INSERT INTO ledger.copy_differences (kind, id) SELECT $1, unnest($2::text[])
    ON CONFLICT DO NOTHING`;
  await tx.query(sql, [kind, (found as { id: string }[]).map(({ id }) => id)]);
}

/** Whole numbers as text: json_to_recordset makes bigints of them. */
function toJson(rows: readonly object[]): string {
  return JSON.stringify(rows, (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
}
