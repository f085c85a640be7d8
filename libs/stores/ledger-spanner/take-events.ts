import type { EventId } from '@triplock/payments';
import type { Lookup } from './spanner/lookup.ts';
import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { BucketLease, OutboxEvent } from '@triplock/ledger';
import { takeByTurns } from './take-by-turns.ts';
import { takeFrom } from './take-from.ts';

/** So many waiting events are looked at before a statement is asked for the first of more. */
const lookedAtMax = 1_024;

/** An event that waits, as the index over them has it: in order within its bucket. */
export type WaitingEvent = { pending_bucket: bigint; event_id: EventId; created_at: bigint };

const anyParked: Lookup = {
  ...{ table: 'outbox', index: 'outbox_parked', columns: ['event_id'], keys: 'all', limit: 1 },
};

/** Reads events by `Outbox.take`'s contract. An order id is the commit's time, in microseconds. */
export async function takeEvents(
  database: SpannerDatabase,
  { leases, rowsMax }: { leases: readonly BucketLease[]; rowsMax: number },
): Promise<OutboxEvent[]> {
  if (leases.length === 0) return [];
  const waiting = await waitingIn(database, leases);
  // Asked many times a second, mostly for nothing.
  if (waiting.length === 0) return [];
  const isLittle = waiting.length < lookedAtMax && (await database.read(anyParked)).length === 0;
  return isLittle
    ? takeFrom(database, { leases, rowsMax, waiting })
    : takeByTurns(database, { leases, rowsMax });
}

function waitingIn(
  database: SpannerDatabase,
  leases: readonly BucketLease[],
): Promise<WaitingEvent[]> {
  return database.read<WaitingEvent>({
    ...{ table: 'outbox', index: 'outbox_pending' },
    columns: ['pending_bucket', 'event_id', 'created_at'],
    keys: { ranges: leases.map(({ bucket }) => ({ prefix: [bucket] })) },
    ...{ limit: lookedAtMax, micros: ['created_at'] },
  });
}
