import type { Backlog, Outbox } from '@triplock/ledger';
import type { EventId, TxnId } from '@triplock/payments';
import { countHeld, isAnyParked, passByHeld, updateEvent } from './leases.ts';
import type { SpannerDatabase } from './spanner/database.ts';
import type { SpannerTransaction } from './spanner/transaction.ts';
import type { Lookup, Write } from './spanner/values.ts';

const hint = 'spanner_emulator.disable_query_null_filtered_index_check=true';
const dayMs = 86_400_000;

/** The oldest of what was published in a range, without locks; each bucket gives its own oldest. */
const publishedSql = (filter: string) => `
  SELECT old.event_id, old.payment_id
  FROM UNNEST(GENERATE_ARRAY(0, 63)) AS wanted_bucket,
    UNNEST(ARRAY(
      SELECT AS STRUCT event_id, payment_id, published_at
      FROM outbox@{FORCE_INDEX=outbox_published, ${hint}}
      WHERE published_bucket = wanted_bucket AND ${filter}
      ORDER BY published_at LIMIT @rowsMax
    )) AS old
  ORDER BY old.published_at LIMIT @rowsMax`;

const longAgoSql = publishedSql('published_at < @before AND sequence IS NOT NULL');
const inRangeSql = publishedSql('published_at >= @since AND published_at < @until');

type Found = { event_id: EventId; payment_id: TxnId };

/**
 * Reaps by `Outbox.reap`'s contract. Reapers wait for one another at the horizon's row, which says
 * how far events have left.
 */
export async function reapOutbox(
  database: SpannerDatabase,
  { keepMs, rowsMax }: Parameters<Outbox['reap']>[0],
): Promise<number> {
  if (keepMs < dayMs) {
    throw new RangeError(`published events are kept for a day at least, not for ${keepMs} ms`);
  }
  const [clock] = await database.query<{ now: Date }>('SELECT CURRENT_TIMESTAMP() AS now');
  const before = new Date(+clock!.now - keepMs);
  const found = await database.query<Found>(longAgoSql, { before, rowsMax });
  return database.transaction(async (tx) => {
    const horizon = await readHorizon(tx);
    const rows = found.length === 0 ? [] : await stillOld(tx, { found, before });
    if (rows.length === 0 && horizon?.kept_for_ms === BigInt(keepMs)) return 0;
    const isFurther = rows.length > 0 && +before > +(horizon?.reaped_before ?? 0);
    const row = {
      only_row: true,
      reaped_before: isFurther ? before : (horizon?.reaped_before ?? new Date(0)),
      events: (horizon?.events ?? 0n) + BigInt(rows.length),
      kept_for_ms: Math.round(keepMs),
    };
    tx.write(
      { kind: 'insertOrUpdate', table: 'outbox_horizon', row },
      ...rows.map(({ event_id }): Write => ({ kind: 'delete', table: 'outbox', key: [event_id] })),
    );
    return rows.length;
  });
}

type Horizon = { reaped_before: Date; events: bigint; kept_for_ms: bigint };

async function readHorizon(tx: SpannerTransaction): Promise<Horizon | undefined> {
  const sql = 'SELECT reaped_before, events, kept_for_ms FROM outbox_horizon WHERE only_row';
  const [horizon] = await tx.query<Horizon>(sql);
  return horizon;
}

/** Those that nobody let wait again, or took out, since they were found. */
function stillOld(
  tx: SpannerTransaction,
  { found, before }: { found: readonly Found[]; before: Date },
): Promise<{ event_id: EventId }[]> {
  const sql = `
    SELECT event_id FROM outbox
    WHERE event_id IN UNNEST(@ids) AND state = 'published' AND published_at < @before`;
  return tx.query(sql, { ids: found.map(({ event_id }) => event_id), before });
}

const ofPaymentsSql = `
  SELECT event_id
  FROM UNNEST(@payments) AS payment
  JOIN outbox@{FORCE_INDEX=one_event_per_position} ON payment_id = payment
  WHERE state = 'published' AND published_at < @until`;

/** So few that a transaction holds its locks for a moment, and the emulator comes to its end. */
const paymentsAtOnce = 100;

/**
 * Lets published events wait again, by `Outbox.republish`'s contract. Ended between two
 * transactions it leaves the rest published in the range, for the next call.
 */
export async function republishEvents(
  database: SpannerDatabase,
  { since, until, rowsMax }: Parameters<Outbox['republish']>[0],
): Promise<number> {
  const found = await database.query<Found>(inRangeSql, { since, until, rowsMax });
  const payments = [...new Set(found.map(({ payment_id }) => payment_id))];
  let events = 0;
  for (let from = 0; from < payments.length; from += paymentsAtOnce) {
    const some = payments.slice(from, from + paymentsAtOnce);
    events += await database.transaction(async (tx) => {
      const rows = await tx.query<{ event_id: EventId }>(ofPaymentsSql, { payments: some, until });
      for (const { event_id } of rows) {
        const waiting = { state: 'pending', published_at: null, published_epoch: null };
        updateEvent(tx, { event_id, ...waiting });
      }
      return rows.length;
    });
  }
  return events;
}

/** Beyond this a backlog shows by its age. */
const countedMax = 10_000;

const pending =
  'outbox@{FORCE_INDEX=outbox_pending, spanner_emulator.disable_query_null_filtered_index_check=true}';
/** Each of at most so many, which is all there is where it counts fewer. */
const countSql = (notHeld: string) => `
  SELECT COUNT(*) AS waiting, MIN(created_at) AS oldest, CURRENT_TIMESTAMP() AS now FROM (
    SELECT created_at FROM ${pending}
    WHERE pending_bucket >= 0 AND created_at < @createdBefore AND ${notHeld} LIMIT @countedMax
  )`;

const oldestSql = (notHeld: string) => `
  SELECT MIN(head.created_at) AS oldest
  FROM UNNEST(GENERATE_ARRAY(0, 63)) AS wanted_bucket,
    UNNEST(ARRAY(
      SELECT AS STRUCT created_at FROM ${pending}
      WHERE pending_bucket = wanted_bucket AND created_at < @createdBefore AND ${notHeld}
      ORDER BY created_at LIMIT 1
    )) AS head`;

/** So many are read one by one before a statement is asked to count more. */
const lookedAtMax = 256;

const few: Lookup = {
  table: 'outbox',
  index: 'outbox_pending',
  columns: ['created_at'],
  keys: 'all',
  limit: lookedAtMax,
};

/** After every commit there will be; Spanner's last second is later still. */
const never = new Date('9999-01-01T00:00:00Z');

/**
 * Measures what waits by `Outbox.pending`'s contract. A backlog makes this no slower: the count
 * ends, and the oldest is looked up per bucket, at the head of an index.
 */
export async function measurePending(
  database: SpannerDatabase,
  createdBefore = never,
): Promise<Backlog> {
  const seen = await database.read<{ created_at: Date }>(few);
  if (seen.length < lookedAtMax && !(await isAnyParked(database))) {
    const waiting = seen.filter(({ created_at }) => created_at < createdBefore);
    return { rows: waiting.length, oldestSeconds: oldestOf(waiting), held: 0 };
  }
  const { notHeld, parameters } = await passByHeld(database);
  const counting = { ...parameters, createdBefore, countedMax };
  type Row = { waiting: bigint; oldest: Date | null; now: Date };
  const [row] = await database.query<Row>(countSql(notHeld), counting);
  const rows = Number(row!.waiting);
  if (rows === countedMax) {
    const [head] = await database.query<Row>(oldestSql(notHeld), counting);
    row!.oldest = head!.oldest;
  }
  const oldestSeconds = (+row!.now - +(row!.oldest ?? row!.now)) / 1_000;
  return { rows, oldestSeconds, held: await countHeld(database, counting) };
}

/** By this process's clock, which may be behind. */
function oldestOf(waiting: readonly { created_at: Date }[]): number {
  const ages = waiting.map(({ created_at }) => (Date.now() - +created_at) / 1_000);
  return Math.max(0, ...ages);
}
