import type { EventId } from '@triplock/payments';
import { loadSql, loadStatements, type Database, type Queryable } from '@triplock/postgres';
import { openBatches } from '@triplock/runtime';
import {
  markInBatches,
  type Backlog,
  type BucketLease,
  type Holding,
  type Outbox,
  type OutboxEvent,
  type PublishedMark,
} from '../outbox.ts';

const leaseBucketsSql = loadSql(import.meta.url, 'lease-buckets.sql');
const takeSql = loadSql(import.meta.url, 'take.sql');
const sql = loadStatements(import.meta.url, 'outbox.sql', [
  'markPublished',
  'park',
  'redrive',
  'releaseBuckets',
  'reap',
  'republish',
  'pending',
  'server',
]);

/** Enough that a few busy buckets among idle ones need no round of their own per row. */
const perBucketMin = 16;

/** The outbox in PostgreSQL, as the role of whoever publishes it. Closing it closes the pool. */
export function openPostgresOutbox(database: Database): Outbox {
  return {
    leaseBuckets: async ({ owner, leaseMs }) =>
      holdingOf(await database.query<LeasedRow>(leaseBucketsSql, [owner, leaseMs])),
    server: async () => {
      const [row] = await database.query<{ server: string }>(sql.server);
      return row!.server;
    },
    take: (leases, rowsMax) => take(database, { leases, rowsMax }),
    listen: (appended, signal) => database.listen(appendedChannel, appended, signal),
    markPublished: markInBatches((published) => markPublished(database, published)),
    park: async ({ bucket, epoch }, { eventId, reason }) =>
      (await database.query(sql.park, [bucket, epoch, eventId, reason])).length,
    redrive: async (eventId) => {
      const rows = await database.query<{ event_id: EventId }>(sql.redrive, [eventId]);
      return rows.map(({ event_id }) => event_id);
    },
    releaseBuckets: async (owner) => void (await database.query(sql.releaseBuckets, [owner])),
    reap: async ({ keepMs, rowsMax }) => {
      const [row] = await database.query<{ reaped: number }>(sql.reap, [keepMs, rowsMax]);
      return row!.reaped;
    },
    republish: async ({ since, until, rowsMax }) => {
      const given = readInOrder(database, (tx) => tx.query(sql.republish, [since, until, rowsMax]));
      return (await given).length;
    },
    pending: (createdBefore) => measurePending(database, createdBefore),
    ping: () => database.ping(),
    close: () => database.close(),
  };
}

const appendedChannel = 'triplock_outbox';
const announceApartMs = 10;

/**
 * Gives a call of the ledger back that also wakes the dispatchers once its events are committed.
 *
 * By a transaction of its own, for all commits of some milliseconds: a NOTIFY is committed under a
 * lock of the whole server, so one in the posting transaction would have all of them wait for each
 * other. When it fails, or the process dies before it, dispatchers find the events at their next
 * look.
 */
export function openAnnouncer(database: Database) {
  const announcements = openBatches<void>(
    async () => {
      await database
        .query('SELECT pg_notify($1, $2)', [appendedChannel, ''])
        .catch(() => undefined);
    },
    { itemsMax: Infinity, apartMs: announceApartMs },
  );
  return <Request, Outcome>(append: (request: Request) => Promise<Outcome>) =>
    async (request: Request): Promise<Outcome> => {
      const outcome = await append(request);
      announcements.add();
      return outcome;
    };
}

type LeasedRow = {
  bucket: number | null;
  epoch: bigint | null;
  more_to_come: boolean;
  server: string;
};

function holdingOf(rows: readonly LeasedRow[]): Holding {
  const leases = rows.flatMap(({ bucket, epoch }) =>
    bucket === null || epoch === null ? [] : [{ bucket, epoch }],
  );
  return { leases, moreToCome: rows[0]!.more_to_come, server: rows[0]!.server };
}

type TakenRow = {
  order_id: bigint;
  event_id: EventId;
  event_type: string;
  txn_id: string;
  payment_id: string;
  bucket: number;
  sequence: number | null;
  payload: string;
  traceparent: string;
};

async function take(
  database: Database,
  wanted: { leases: readonly BucketLease[]; rowsMax: number },
): Promise<OutboxEvent[]> {
  const { leases, rowsMax } = wanted;
  if (leases.length === 0) return [];
  const perBucketMax = Math.max(perBucketMin, Math.ceil(rowsMax / leases.length));
  const rows = await database.query<TakenRow>(takeSql, [
    leases.map((lease) => lease.bucket),
    leases.map((lease) => lease.epoch),
    perBucketMax,
    rowsMax,
  ]);
  return rows.map(outboxEvent);
}

function outboxEvent(row: TakenRow): OutboxEvent {
  return {
    orderId: row.order_id,
    id: row.event_id,
    type: row.event_type,
    subject: row.txn_id,
    orderingKey: row.payment_id,
    bucket: row.bucket,
    ...(row.sequence !== null && { sequence: row.sequence }),
    payload: row.payload,
    traceparent: row.traceparent,
  };
}

/** Marks events of several buckets in one statement, and gives back those that it marked. */
async function markPublished(
  database: Database,
  published: readonly PublishedMark[],
): Promise<EventId[]> {
  const rows = await database.query<{ event_id: EventId }>(sql.markPublished, [
    published.map((mark) => mark.eventId),
    published.map((mark) => mark.bucket),
    published.map((mark) => mark.epoch),
  ]);
  return rows.map((row) => row.event_id);
}

const readInOrderSql = `
  SELECT set_config(name, 'off', true)
  FROM unnest('{enable_bitmapscan,enable_seqscan,enable_sort}'::text[]) AS name`;

/** Asks by indexes in their order: PostgreSQL would rather read a whole one, or the table. */
function readInOrder<Row>(
  database: Database,
  ask: (tx: Queryable) => Promise<Row[]>,
): Promise<Row[]> {
  return database.transaction(async (tx) => {
    await tx.query(readInOrderSql);
    return ask(tx);
  });
}

/** Beyond this a backlog shows by its age. */
const countedMax = 10_000;

/** Measures what waits by `Outbox.pending`'s contract. */
async function measurePending(database: Database, createdBefore?: Date): Promise<Backlog> {
  const limits = [countedMax, createdBefore ?? 'infinity'];
  const [row] = await readInOrder(database, (tx) =>
    tx.query<{ rows: number; held: number; oldest_seconds: number }>(sql.pending, limits),
  );
  return { rows: row!.rows, oldestSeconds: row!.oldest_seconds, held: row!.held };
}
