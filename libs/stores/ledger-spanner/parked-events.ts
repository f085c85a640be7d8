import type { BucketLease } from '@triplock/ledger';
import type { EventId } from '@triplock/payments';
import { heldLeases, updateEvent } from './leases.ts';
import type { SpannerDatabase } from './spanner/database.ts';
import type { Lookup, Params } from './spanner/values.ts';

const behindSql = `
  SELECT later.event_id
  FROM outbox AS poison
  JOIN outbox@{FORCE_INDEX=one_event_per_position} AS later
    ON later.payment_id = poison.payment_id
    AND later.created_at >= poison.created_at AND later.state = 'pending'
  WHERE poison.event_id = @eventId AND poison.bucket = @bucket AND poison.state = 'pending'`;

/** Sets an event and its payment's later ones aside, where the lease holds; returns how many. */
export function parkEvent(
  database: SpannerDatabase,
  lease: BucketLease,
  { eventId, reason }: { eventId: EventId; reason: string },
): Promise<number> {
  const { bucket, epoch } = lease;
  return database.transaction(async (tx) => {
    if ((await heldLeases(tx, [lease])).get(bucket) !== epoch) return 0;
    const rows = await tx.query<{ event_id: EventId }>(behindSql, { eventId, bucket });
    for (const { event_id } of rows) {
      const parked_reason = event_id === eventId ? reason : `behind ${eventId}`;
      updateEvent(tx, { event_id, state: 'parked', parked_reason });
    }
    return rows.length;
  });
}

const parkedTogetherSql = `
  SELECT event.event_id
  FROM outbox AS parked
  JOIN outbox@{FORCE_INDEX=one_event_per_position} AS event USING (payment_id)
  WHERE parked.event_id = @eventId AND parked.state = 'parked' AND event.state = 'parked'`;

/** Has a parked event wait again with its payment's others, by `Outbox.redrive`'s contract. */
export function redriveEvent(database: SpannerDatabase, eventId: EventId): Promise<EventId[]> {
  return database.transaction(async (tx) => {
    const rows = await tx.query<{ event_id: EventId }>(parkedTogetherSql, { eventId });
    for (const { event_id } of rows) {
      updateEvent(tx, { event_id, state: 'pending', parked_reason: null });
    }
    return rows.map(({ event_id }) => event_id);
  });
}

const anyParked: Lookup = {
  ...{ table: 'outbox', index: 'outbox_parked', columns: ['event_id'], keys: 'all', limit: 1 },
};

/** Whether anything may be held. */
export async function isAnyParked(database: SpannerDatabase): Promise<boolean> {
  return (await database.read(anyParked)).length > 0;
}

/** What is parked is little; each payment's first. */
const parkedSql = `
  SELECT parked_payment AS payment, UNIX_MICROS(MIN(created_at)) AS micros
  FROM outbox@{FORCE_INDEX=outbox_parked, spanner_emulator.disable_query_null_filtered_index_check=true}
  WHERE parked_payment IS NOT NULL
  GROUP BY parked_payment`;

/** The payments are looked at first: most events are of none of them. */
const notHeldSql = `(
  payment_id NOT IN UNNEST(@payments) OR NOT EXISTS (
    SELECT 1 FROM UNNEST(@payments) AS payment WITH OFFSET AS nth_parked
    WHERE payment = payment_id AND @since[OFFSET(nth_parked)] < UNIX_MICROS(created_at)
  )
)`;

/** What a statement puts into its condition to pass by what stands behind a parked event. */
export async function passByHeld(database: SpannerDatabase) {
  const parked = await database.query<{ payment: string; micros: bigint }>(parkedSql);
  const parameters = {
    payments: parked.map(({ payment }) => payment),
    since: parked.map(({ micros }) => micros),
  };
  return { notHeld: parked.length === 0 ? 'TRUE' : notHeldSql, parameters };
}

const heldSql = `
  SELECT COUNT(*) AS held FROM (
    SELECT 1
    FROM UNNEST(@payments) AS payment WITH OFFSET AS nth_parked
    JOIN outbox@{FORCE_INDEX=one_event_per_position} AS event ON event.payment_id = payment
    WHERE event.state IN ('pending', 'parked') AND event.created_at < @createdBefore
      AND UNIX_MICROS(event.created_at) >= @since[OFFSET(nth_parked)]
    LIMIT @countedMax
  )`;

/** Counts what is parked, and what stands behind it in the order of its payment. */
export async function countHeld(
  database: SpannerDatabase,
  counting: Params & { payments: readonly string[] },
): Promise<number> {
  if (counting.payments.length === 0) return 0;
  const [row] = await database.query<{ held: bigint }>(heldSql, counting);
  return Number(row!.held);
}
