import { type BucketLease, markInBatches, type Outbox, type OutboxEvent } from '@triplock/ledger';
import type { EventId, TxnId } from '@triplock/payments';
import { loadSql } from '@triplock/postgres';
import {
  heldLeases,
  isAnyParked,
  leaseBuckets,
  markPublished,
  parkEvent,
  passByHeld,
  redriveEvent,
  releaseBuckets,
} from './leases.ts';
import { measurePending, reapOutbox, republishEvents } from './outbox-retention.ts';
import type { SpannerDatabase } from './spanner/database.ts';

/** The outbox in Cloud Spanner. Closing it closes the database's connection. */
export function openSpannerOutbox(database: SpannerDatabase): Outbox {
  return {
    leaseBuckets: (request) => leaseBuckets(database, request),
    take: (leases, rowsMax) => takeEvents(database, { leases, rowsMax }),
    markPublished: markInBatches((published) => markPublished(database, published)),
    park: (lease, poison) => parkEvent(database, lease, poison),
    redrive: (eventId) => redriveEvent(database, eventId),
    releaseBuckets: (owner) => releaseBuckets(database, owner),
    reap: (horizon) => reapOutbox(database, horizon),
    republish: (range) => republishEvents(database, range),
    pending: (createdBefore) => measurePending(database, createdBefore),
    ping: () => database.ping(),
    close: () => database.close(),
  };
}

/** So many waiting events are looked at before a statement is asked for the first of more. */
const lookedAtMax = 1_024;

/** An event that waits, as the index over them has it: in order within its bucket. */
type WaitingEvent = { pending_bucket: bigint; event_id: EventId; created_at: bigint };

/** Reads events by `Outbox.take`'s contract. An order id is the commit's time, in microseconds. */
async function takeEvents(
  database: SpannerDatabase,
  { leases, rowsMax }: { leases: readonly BucketLease[]; rowsMax: number },
): Promise<OutboxEvent[]> {
  if (leases.length === 0) return [];
  const waiting = await waitingIn(database, leases);
  // Asked many times a second, mostly for nothing.
  if (waiting.length === 0) return [];
  const isLittle = waiting.length < lookedAtMax && !(await isAnyParked(database));
  return isLittle
    ? takeFrom(database, { leases, rowsMax, waiting })
    : takeFromMany(database, { leases, rowsMax });
}

function waitingIn(
  database: SpannerDatabase,
  leases: readonly BucketLease[],
): Promise<WaitingEvent[]> {
  return database.read<WaitingEvent>({
    table: 'outbox',
    index: 'outbox_pending',
    columns: ['pending_bucket', 'event_id', 'created_at'],
    keys: { ranges: leases.map(({ bucket }) => ({ prefix: [bucket] })) },
    limit: lookedAtMax,
    micros: ['created_at'],
  });
}

type Taking = {
  leases: readonly BucketLease[];
  rowsMax: number;
  /** All that wait in the leased buckets. */
  waiting: readonly WaitingEvent[];
};

/** Takes the first events of all that wait: one of each bucket after the other, as in take.sql. */
async function takeFrom(
  database: SpannerDatabase,
  { leases, rowsMax, waiting }: Taking,
): Promise<OutboxEvent[]> {
  const epochs = await heldLeases(database, leases);
  const holding = new Set(
    leases.filter(({ bucket, epoch }) => epochs.get(bucket) === epoch).map(({ bucket }) => bucket),
  );
  const ids = inRounds(waiting.filter((event) => holding.has(Number(event.pending_bucket))))
    .slice(0, rowsMax)
    .map(({ event_id }) => event_id);
  if (ids.length === 0) return [];
  const rows = await database.read<TakenRow & { state: string }>({
    table: 'outbox',
    columns: [...takenColumns, 'state'],
    micros: ['created_at'],
    keys: ids.map((id) => [id]),
  });
  const byId = new Map(rows.map((row) => [row.event_id, row]));
  // Another owner may have published or set aside what the index still had.
  return ids.flatMap((id) => {
    const row = byId.get(id);
    return row?.state === 'pending' ? [outboxEventFrom(row)] : [];
  });
}

/** The first of each bucket, the oldest of them first, then the second ones. */
function inRounds(waiting: readonly WaitingEvent[]): WaitingEvent[] {
  const buckets = [...Map.groupBy(waiting, (event) => event.pending_bucket).values()];
  const numbered = buckets.flatMap((events) => events.map((event, round) => ({ event, round })));
  const byAge = (one: bigint, other: bigint) => (one < other ? -1 : Number(one > other));
  return numbered
    .sort(
      (one, other) =>
        one.round - other.round || byAge(one.event.created_at, other.event.created_at),
    )
    .map(({ event }) => event);
}

const takeSql = loadSql(import.meta.url, 'take.sql');

/** Enough that a few busy buckets among idle ones need no round for each row. */
const perBucketMin = 16;

/** Takes events however many wait, and passes by what waits behind a parked one. */
async function takeFromMany(
  database: SpannerDatabase,
  { leases, rowsMax }: { leases: readonly BucketLease[]; rowsMax: number },
): Promise<OutboxEvent[]> {
  const { notHeld, parameters } = await passByHeld(database);
  const rows = await database.query<TakenRow>(takeSql.replace('$NOT_HELD', notHeld), {
    ...parameters,
    buckets: leases.map((lease) => lease.bucket),
    epochs: leases.map((lease) => lease.epoch),
    perBucket: Math.max(perBucketMin, Math.ceil(rowsMax / leases.length)),
    limit: rowsMax,
  });
  return rows.map(outboxEventFrom);
}

/** A row of the outbox as it is taken, with the time of its commit in microseconds. */
type TakenRow = {
  created_at: bigint;
  event_id: EventId;
  event_type: string;
  txn_id: TxnId;
  payment_id: TxnId;
  bucket: bigint;
  sequence: bigint | null;
  payload: string;
  traceparent: string;
};

const columns: Record<keyof TakenRow, true> = {
  created_at: true,
  event_id: true,
  event_type: true,
  txn_id: true,
  payment_id: true,
  bucket: true,
  sequence: true,
  payload: true,
  traceparent: true,
};

/** The columns of such a row. */
const takenColumns = Object.keys(columns);

/** The event that a row holds. */
function outboxEventFrom(row: TakenRow): OutboxEvent {
  return {
    orderId: row.created_at,
    id: row.event_id,
    type: row.event_type,
    subject: row.txn_id,
    orderingKey: row.payment_id,
    bucket: Number(row.bucket),
    ...(row.sequence !== null && { sequence: Number(row.sequence) }),
    payload: row.payload,
    traceparent: row.traceparent,
  };
}
