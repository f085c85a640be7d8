import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { BucketLease, OutboxEvent } from '@triplock/ledger';
import { heldLeases } from './held-leases.ts';
import { outboxEventFrom, takenColumns, type TakenRow } from './taken-row.ts';
import type { WaitingEvent } from './take-events.ts';

type Taking = {
  leases: readonly BucketLease[];
  rowsMax: number;
  /** All that wait in the leased buckets. */
  waiting: readonly WaitingEvent[];
};

/** Takes the first events of all that wait: buckets take turns row by row, as in take.sql. */
export async function takeFrom(
  database: SpannerDatabase,
  { leases, rowsMax, waiting }: Taking,
): Promise<OutboxEvent[]> {
  const epochs = await heldLeases(database, leases);
  const holding = new Set(
    leases.filter(({ bucket, epoch }) => epochs.get(bucket) === epoch).map(({ bucket }) => bucket),
  );
  const ids = turnsOf(waiting.filter((event) => holding.has(Number(event.pending_bucket))))
    .slice(0, rowsMax)
    .map(({ event_id }) => event_id);
  if (ids.length === 0) return [];
  const rows = await database.read<TakenRow & { state: string }>({
    ...{ table: 'outbox', columns: [...takenColumns, 'state'], micros: ['created_at'] },
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
function turnsOf(waiting: readonly WaitingEvent[]): WaitingEvent[] {
  const buckets = [...Map.groupBy(waiting, (event) => event.pending_bucket).values()];
  const inTurn = buckets.flatMap((events) => events.map((event, turn) => ({ event, turn })));
  const byAge = (one: bigint, other: bigint) => (one < other ? -1 : Number(one > other));
  return inTurn
    .sort(
      (one, other) => one.turn - other.turn || byAge(one.event.created_at, other.event.created_at),
    )
    .map(({ event }) => event);
}
