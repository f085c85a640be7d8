/**
 * What a crash does, here or of either database:
 * - before a slice commits: nothing of it is kept, and the next copier copies it again, as it is by
 *   then;
 * - between two slices: the copy keeps what was copied, says by `ledger.copied.behind` that it is
 *   of no one moment, and the next copier goes on behind the last slice;
 * - after the last slice: nothing.
 *
 * Nothing is missed, because a slice reads now what was changed last in its span: a row that
 * changed since then has left the span, forwards only, and waits in a later slice. So no read is of
 * an old moment, which Spanner would no longer have an hour later, however long the way is. And
 * because a row is read later each time, its copy only goes forward, as the history of the copy
 * demands.
 */
import type { CopyLedger } from '@triplock/ledger';
import { type Database, loadStatements, type Queryable } from '@triplock/postgres';
import type { Moment, SpannerDatabase } from '../spanner/database.ts';
import {
  chooseSlice,
  countRows,
  disputeEndsOf,
  disputesOf,
  entriesOf,
  eventsOf,
  horizonOf,
  type RowCounts,
  type Slice,
  transactionsOf,
} from './slices.ts';

const copySql = loadStatements(import.meta.url, 'copy.sql', [
  'copyTransactions',
  'findDifferent',
  'copyEntries',
  'copyDisputes',
  'copyDisputeEnds',
  'copyEvents',
  'countRows',
]);

/** Of transactions and of events: a second or two of PostgreSQL's time. */
const usualSliceRows = 4_000;

/** Above what one call to Spanner may take, during which PostgreSQL sees a copier do nothing. */
const usualIdleMs = 15_000;

/**
 * Copies a ledger in Spanner into the schema `ledger` of PostgreSQL, as the role `triplock_copy`:
 * what was committed since the last time, in slices of bounded size, each in a transaction of its
 * own. After the last one the copy is as of one moment. One of several copiers copies a slice while
 * the others wait, and PostgreSQL ends the transaction of one that does nothing.
 *
 * What a row may not become, such as another amount or another end, is not copied; it is recorded
 * in `ledger.copy_differences`, which the audit reads.
 */
export function copyLedgerFrom(
  spanner: SpannerDatabase,
  postgres: Database,
  { sliceRows = usualSliceRows, idleMaxMs = usualIdleMs } = {},
): CopyLedger {
  const copyNextSlice = (counting: boolean) =>
    postgres.transaction(async (tx) => {
      // Begun under the lock of the others, so that two never copy the same changes.
      const sinceMicros = await lockCopy(tx, idleMaxMs);
      return spanner.snapshot(async (moment) => {
        const slice = await chooseSlice(moment, { sinceMicros, rowsMax: sliceRows });
        await copySlice({ moment, tx }, slice);
        await copyHorizon({ moment, tx }, sliceRows);
        if (counting && !slice.moreFollows) await compareCounts(tx, moment);
        await keepPosition(tx, slice);
        return slice;
      });
    });
  return async ({ counting, slicesMax = Infinity }) => {
    const copied = { transactions: 0, events: 0, moreFollows: true };
    for (let slices = 0; copied.moreFollows && slices < slicesMax; slices += 1) {
      const slice = await copyNextSlice(counting);
      copied.transactions += slice.transactionIds.length;
      copied.events += slice.eventIds.length;
      copied.moreFollows = slice.moreFollows;
    }
    return copied;
  };
}

async function lockCopy(tx: Queryable, idleMaxMs: number): Promise<bigint> {
  await tx.query(`SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, [
    String(idleMaxMs),
  ]);
  await tx.query('INSERT INTO ledger.copied (until_micros) VALUES (0) ON CONFLICT DO NOTHING');
  const sql = 'SELECT until_micros FROM ledger.copied FOR UPDATE';
  const [row] = await tx.query<{ until_micros: bigint }>(sql);
  return row!.until_micros;
}

async function keepPosition(tx: Queryable, { untilMicros, moreFollows }: Slice): Promise<void> {
  const sql = 'UPDATE ledger.copied SET until_micros = $1, behind = $2';
  await tx.query(sql, [untilMicros, moreFollows]);
}

/**
 * Takes out of the copy what has left the outbox: the same function, asked for as many, oldest
 * first. What is more than `rowsMax` leaves with later slices.
 */
async function copyHorizon({ moment, tx }: Sides, rowsMax: number): Promise<void> {
  const horizon = await horizonOf(moment);
  if (horizon === undefined) return;
  const sql = 'SELECT events FROM ledger.outbox_horizon';
  const [known] = await tx.query<{ events: bigint }>(sql);
  const left = Math.min(Number(horizon.events - known!.events), rowsMax);
  const keep = `SELECT ledger.reap_outbox($1::float8 * interval '1 millisecond', $2::integer)`;
  await tx.query(keep, [Number(horizon.kept_for_ms), left]);
}

async function compareCounts(tx: Queryable, moment: Moment): Promise<void> {
  const there = await countRows(moment);
  const [here] = await tx.query<RowCounts>(copySql.countRows);
  const figures = ['transactions', 'entries', 'disputes', 'dispute_ends', 'moved'] as const;
  const differing = figures.filter((figure) => there[figure] !== here![figure]);
  const found = differing.map((figure) => ({
    id: `${figure}: ${there[figure]} in the ledger, ${here![figure]} in its copy`,
  }));
  await recordDifferences(tx, { kind: 'rows', found });
}

/** A row is a request of 64 KiB at most, and one answer of Spanner holds 10 MiB. */
const pageRows = 128;

/** Where a slice is read, and where it is written. */
export type Sides = { moment: Moment; tx: Queryable };

/**
 * Copies the rows of a slice, each as of the moment. What they refer to comes with them, even where
 * it changed after the slice: a refund never stands without its payment, an entry or an event never
 * without its transaction.
 */
async function copySlice(sides: Sides, slice: Slice): Promise<void> {
  const known = new Set<string>();
  await copyTransactions(sides, slice.transactionIds, known);
  for (const ids of pagesOf(slice.eventIds)) {
    const rows = await eventsOf(sides.moment, ids);
    // A key conflict is about an id that is in the ledger as another request's.
    const about = rows.flatMap(({ txn_id, payment_id }) => [txn_id, payment_id]);
    await copyTransactions(sides, about, known);
    await recordDifferences(sides.tx, {
      kind: 'event',
      found: await sides.tx.query(copySql.copyEvents, [toJson(rows)]),
    });
  }
}

/**
 * Copies transactions with entries and disputes, and what they refund; `known` are copied already.
 */
async function copyTransactions(
  { moment, tx }: Sides,
  wanted: readonly string[],
  known: Set<string>,
): Promise<void> {
  const missing = [...new Set(wanted)].filter((id) => !known.has(id));
  for (const ids of pagesOf(missing)) {
    for (const id of ids) known.add(id);
    const rows = await transactionsOf(moment, ids);
    const refunded = rows.flatMap(({ payment_id }) => payment_id ?? []);
    await copyTransactions({ moment, tx }, refunded, known);
    const input = toJson(rows);
    await tx.query(copySql.copyTransactions, [input]);
    const different = await tx.query<{ id: string }>(copySql.findDifferent, [input]);
    await recordDifferences(tx, { kind: 'transaction', found: different });
    const entries = toJson(await entriesOf(moment, ids));
    const found = await tx.query<{ id: string }>(copySql.copyEntries, [entries]);
    await recordDifferences(tx, { kind: 'entry', found });
    const disputes = toJson(await disputesOf(moment, ids));
    const others = await tx.query<{ id: string }>(copySql.copyDisputes, [disputes]);
    await recordDifferences(tx, { kind: 'dispute', found: others });
    const ends = toJson(await disputeEndsOf(moment, ids));
    const endedOtherwise = await tx.query<{ id: string }>(copySql.copyDisputeEnds, [ends]);
    await recordDifferences(tx, { kind: 'dispute', found: endedOtherwise });
  }
}

function* pagesOf(ids: readonly string[]): Generator<readonly string[]> {
  for (let at = 0; at < ids.length; at += pageRows) yield ids.slice(at, at + pageRows);
}

/** Whole numbers as text: json_to_recordset makes bigints of them. */
function toJson(rows: readonly object[]): string {
  return JSON.stringify(rows, (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
}

/** What the store says and the history of the copy does not allow, by ids. */
export type Differences = {
  kind: 'transaction' | 'entry' | 'dispute' | 'event' | 'rows';
  found: readonly { id: string }[];
};

/** Records differences, each once; the audit reads them. */
async function recordDifferences(tx: Queryable, { kind, found }: Differences): Promise<void> {
  if (found.length === 0) return;
  const sql = `
    INSERT INTO ledger.copy_differences (kind, id) SELECT $1, unnest($2::text[])
    ON CONFLICT DO NOTHING`;
  await tx.query(sql, [kind, found.map(({ id }) => id)]);
}
