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
import { loadSql, type Database, type Queryable } from '@triplock/postgres';
import type { Moment, SpannerDatabase } from '../spanner/open-spanner.ts';
import { chooseSlice, type Slice } from './choose-slice.ts';
import { copySlice, type Sides } from './copy-slice.ts';
import { countRows, horizonOf } from './read-spanner.ts';
import { recordDifferences } from './record-differences.ts';

const compareRowsSql = loadSql(import.meta.url, 'compare-rows.sql');

/** Of transactions and of events: a second or two of PostgreSQL's time. */
const usualSliceRows = 4_000;

/** Above what one call to Spanner may take, during which PostgreSQL sees a copier do nothing. */
const usualTurnMs = 15_000;

/**
 * Copies a ledger in Spanner into the schema `ledger` of PostgreSQL, as the role `triplock_ledger`:
 * what was committed since the last time, in slices of bounded size, each in a transaction of its
 * own. After the last one the copy is as of one moment. Several copiers take turns, slice by slice,
 * and PostgreSQL takes the turn from one that stands still.
 *
 * What a row may not become, such as another amount or another end, is not copied; it is recorded
 * in `ledger.copy_differences`, which the audit reads.
 */
export function copyLedgerFrom(
  spanner: SpannerDatabase,
  postgres: Database,
  { sliceRows = usualSliceRows, turnMs = usualTurnMs } = {},
): CopyLedger {
  const copyNextSlice = (counting: boolean) =>
    postgres.transaction(async (tx) => {
      // Begun under the lock of the others, so that two never copy the same changes.
      const sinceMicros = await lockCopy(tx, turnMs);
      return spanner.snapshot(async (moment) => {
        const slice = await chooseSlice(moment, { sinceMicros, rowsMax: sliceRows });
        await copySlice({ moment, tx }, slice);
        await copyHorizon({ moment, tx }, sliceRows);
        if (counting && !slice.moreFollows) await compareCounts(tx, moment);
        await keepPlace(tx, slice);
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

async function lockCopy(tx: Queryable, turnMs: number): Promise<bigint> {
  await tx.query(`SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, [
    String(turnMs),
  ]);
  await tx.query('INSERT INTO ledger.copied (until_micros) VALUES (0) ON CONFLICT DO NOTHING');
  const sql = 'SELECT until_micros FROM ledger.copied FOR UPDATE';
  const [row] = await tx.query<{ until_micros: bigint }>(sql);
  return row!.until_micros;
}

async function keepPlace(tx: Queryable, { untilMicros, moreFollows }: Slice): Promise<void> {
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
  const [here] = await tx.query<typeof there>(compareRowsSql);
  const differing = (['transactions', 'entries', 'moved'] as const).filter(
    (figure) => there[figure] !== here![figure],
  );
  const found = differing.map((figure) => ({
    id: `${figure}: ${there[figure]} in the ledger, ${here![figure]} in its copy`,
  }));
  await recordDifferences(tx, { kind: 'rows', found });
}
