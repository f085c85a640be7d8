import type { EventId, TxnId } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { BucketLease, Holding, Outbox, OutboxRow } from '../outbox.ts';
import { markInGroups } from '../mark-in-groups.ts';
import { markPublished } from './mark-published.ts';
import { measurePending } from './measure-pending.ts';

const leaseBucketsSql = loadSql(import.meta.url, 'lease-buckets.sql');
const takeSql = loadSql(import.meta.url, 'take.sql');
const parkSql = loadSql(import.meta.url, 'park.sql');
const releaseBucketsSql = loadSql(import.meta.url, 'release-buckets.sql');
const reapSql = loadSql(import.meta.url, 'reap.sql');
const republishSql = loadSql(import.meta.url, 'republish.sql');

/** Enough that a few busy buckets among idle ones need no turn per row. */
const perBucketMin = 16;

/** The outbox in PostgreSQL, as the role `triplock_ledger`. Closing it closes the pool. */
export function openPostgresOutbox(database: Database): Outbox {
  return {
    leaseBuckets: async ({ owner, leaseMs }) =>
      holdingOf(await database.query<LeasedRow>(leaseBucketsSql, [owner, leaseMs])),
    take: (leases, rowsMax) => take(database, { leases, rowsMax }),
    markPublished: markInGroups((published) => markPublished(database, published)),
    park: async ({ bucket, epoch }, { eventId, reason }) =>
      (await database.query(parkSql, [bucket, epoch, eventId, reason])).length,
    releaseBuckets: async (owner) => void (await database.query(releaseBucketsSql, [owner])),
    reap: async ({ keepMs, rowsMax }) => {
      const [row] = await database.query<{ reaped: number }>(reapSql, [keepMs, rowsMax]);
      return row!.reaped;
    },
    republish: async ({ since, until, rowsMax }) =>
      (await database.query(republishSql, [since, until, rowsMax])).length,
    pending: () => measurePending(database),
    ping: () => database.ping(),
    close: () => database.close(),
  };
}

type LeasedRow = { bucket: number | null; epoch: bigint | null; more_to_come: boolean };

function holdingOf(rows: readonly LeasedRow[]): Holding {
  const leases = rows.flatMap(({ bucket, epoch }) =>
    bucket === null || epoch === null ? [] : [{ bucket, epoch }],
  );
  return { leases, moreToCome: rows[0]!.more_to_come };
}

type TakenRow = {
  order_id: bigint;
  event_id: EventId;
  event_type: string;
  txn_id: TxnId;
  payment_id: TxnId;
  bucket: number;
  sequence: number | null;
  payload: string;
  traceparent: string;
};

async function take(
  database: Database,
  wanted: { leases: readonly BucketLease[]; rowsMax: number },
): Promise<OutboxRow[]> {
  const { leases, rowsMax } = wanted;
  if (leases.length === 0) return [];
  const perBucketMax = Math.max(perBucketMin, Math.ceil(rowsMax / leases.length));
  const rows = await database.query<TakenRow>(takeSql, [
    leases.map((lease) => lease.bucket),
    leases.map((lease) => lease.epoch),
    perBucketMax,
    rowsMax,
  ]);
  return rows.map(outboxRow);
}

function outboxRow(row: TakenRow): OutboxRow {
  return {
    orderId: row.order_id,
    eventId: row.event_id,
    eventType: row.event_type,
    txnId: row.txn_id,
    paymentId: row.payment_id,
    bucket: row.bucket,
    sequence: row.sequence,
    payload: row.payload,
    traceparent: row.traceparent,
  };
}
