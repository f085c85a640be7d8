import type { EventId } from '@triplock/payments';
import { commitTimestamp } from './spanner/values.ts';
import { type SpannerDatabase } from './spanner/open-spanner.ts';
import { type SpannerTransaction } from './spanner/transaction.ts';
import type { PublishedMark } from '@triplock/ledger';
import type { BucketLease } from '@triplock/ledger';
import { heldLeases } from './held-leases.ts';
import type { Columns } from './write-rows.ts';

type EventRow = {
  event_id: EventId;
  bucket: bigint;
  state: string;
  published_epoch: bigint | null;
};

/**
 * Marks events of several buckets, where their leases hold, and gives back those that it marked.
 */
export function markPublished(
  database: SpannerDatabase,
  published: readonly PublishedMark[],
): Promise<EventId[]> {
  const ids = [...new Set(published.map(({ eventId }) => eventId))];
  return database.transaction(async (tx) => {
    const held = await heldLeases(tx, published);
    const rows = await tx.read<EventRow>({
      table: 'outbox',
      columns: ['event_id', 'bucket', 'state', 'published_epoch'],
      keys: ids.map((id) => [id]),
    });
    const events = new Map(rows.map((row) => [row.event_id, row]));
    const marked = new Set<EventId>();
    for (const { eventId, bucket, epoch } of published) {
      const event = events.get(eventId);
      if (held.get(bucket) !== epoch || event?.bucket !== BigInt(bucket)) continue;
      if (event.state === 'pending') {
        if (marked.has(eventId)) continue;
        const state = { state: 'published', published_epoch: epoch };
        updateEvent(tx, { event_id: eventId, ...state, published_at: commitTimestamp });
        marked.add(eventId);
        // After a commit without an answer: the mark of this lease, which marks once, is this one.
      } else if (tx.mayHaveCommitted && event.published_epoch === epoch) marked.add(eventId);
    }
    return [...marked];
  });
}

const behindSql = `
  SELECT later.event_id
  FROM outbox AS poison
  JOIN outbox@{FORCE_INDEX=one_event_per_place} AS later
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

/** Changes an event that the same transaction has read. */
export function updateEvent(
  tx: SpannerTransaction,
  columns: Columns & { event_id: EventId },
): void {
  const row = { ...columns, changed_at: commitTimestamp };
  tx.write({ kind: 'update', table: 'outbox', row });
}
