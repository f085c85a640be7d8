import { loadSql, type Queryable } from '@triplock/postgres';
import type { Moment } from '../spanner/open-spanner.ts';
import type { Slice } from './choose-slice.ts';
import { recordDifferences } from './record-differences.ts';
import { entriesOf, eventsOf, transactionsOf } from './read-spanner.ts';

const copyTransactionsSql = loadSql(import.meta.url, 'copy-transactions.sql');
const findDifferentSql = loadSql(import.meta.url, 'find-different-transactions.sql');
const copyEntriesSql = loadSql(import.meta.url, 'copy-entries.sql');
const copyEventsSql = loadSql(import.meta.url, 'copy-events.sql');

/** A row is a request of 64 KiB at most, and one answer of Spanner holds 10 MiB. */
const pageRows = 128;

/** Where a slice is read, and where it is written. */
export type Sides = { moment: Moment; tx: Queryable };

/**
 * Copies the rows of a slice, each as of the moment. What they refer to comes with them, even where
 * it changed after the slice: a refund never stands without its payment, an entry or an event never
 * without its transaction.
 */
export async function copySlice(sides: Sides, slice: Slice): Promise<void> {
  const known = new Set<string>();
  await copyTransactions(sides, slice.transactionIds, known);
  for (const ids of pagesOf(slice.eventIds)) {
    const rows = await eventsOf(sides.moment, ids);
    // A key conflict tells of an id that is in the ledger as another request's.
    const about = rows.flatMap(({ txn_id, payment_id }) => [txn_id, payment_id]);
    await copyTransactions(sides, about, known);
    await recordDifferences(sides.tx, {
      kind: 'event',
      found: await sides.tx.query(copyEventsSql, [toJson(rows)]),
    });
  }
}

/** Copies transactions with their entries, and what they refund; `known` are copied already. */
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
    await tx.query(copyTransactionsSql, [input]);
    const different = await tx.query<{ id: string }>(findDifferentSql, [input]);
    await recordDifferences(tx, { kind: 'transaction', found: different });
    const entries = toJson(await entriesOf(moment, ids));
    const found = await tx.query<{ id: string }>(copyEntriesSql, [entries]);
    await recordDifferences(tx, { kind: 'entry', found });
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
