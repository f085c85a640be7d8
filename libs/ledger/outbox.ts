import type { Event } from '@triplock/contracts';
import type { EventId } from '@triplock/payments';
import { inBatches } from '@triplock/runtime';

/** The right to publish a bucket's rows until it expires; the epoch grows with every new owner. */
export type BucketLease = { bucket: number; epoch: bigint };

/** The buckets that an owner holds. */
export type Holding = {
  leases: BucketLease[];
  /** Others hold more than their share and give it up when they renew: ask again soon. */
  moreToCome: boolean;
  /** On which server, where `server` says so. */
  server?: string;
};

/**
 * An event that waits to be published. The outbox and whoever empties it know no more of it: its
 * payload is published byte for byte.
 */
export type OutboxEvent = Event<string> & {
  /** Grows along the order of each key. */
  orderId: bigint;
  /** The id of the transaction that it is about. */
  subject: string;
  /** A hash of the ordering key: what a lease is for. */
  bucket: number;
  traceparent: string;
};

/** What has not left the outbox. Each number is counted up to 10 000. */
export type Backlog = {
  /** Events that a dispatcher can take, and the age of the oldest of them. */
  rows: number;
  oldestSeconds: number;
  /**
   * Events that nobody can take before a person has redriven one: parked ones, and whatever stands
   * behind one of them in the order of its payment.
   */
  held: number;
};

/**
 * The outbox's side for dispatchers. One live owner per bucket; every write compares the epoch,
 * so an owner that lost its lease marks nothing.
 */
export type Outbox = {
  /**
   * Renews the owner's leases and takes free or expired ones until it holds its fair share of the
   * buckets among the owners that are alive, and gives up what is more. Returns what it holds now:
   * nothing may be under way for a bucket that it held before. Call it well before `leaseMs` is
   * over; an owner that calls late gets new epochs.
   */
  leaseBuckets(request: { owner: string; leaseMs: number }): Promise<Holding>;
  /**
   * Unpublished rows of leased buckets, in order within each payment: taken by state, whatever
   * their order id. One row of each bucket after the other, so `rowsMax` should be no less than the
   * buckets there are; in PostgreSQL one of each partner in each bucket, so that nobody's backlog
   * is in front of another's events.
   */
  take(leases: readonly BucketLease[], rowsMax: number): Promise<OutboxEvent[]>;
  /**
   * Which server answers now: another one may lack rows that were taken before. Absent where what
   * was committed stays.
   */
  server?(): Promise<string>;
  /**
   * Calls `appended` soon after events were appended, and once when it has begun to listen.
   * Resolves when `signal` aborts. A hint: it may be missing, so look now and then. Absent where
   * the store tells nobody.
   * @throws when it hears nothing any more.
   */
  listen?(appended: () => void, signal: AbortSignal): Promise<void>;
  /**
   * Marks rows published, where the lease still holds. Returns how many were marked. Calls made at
   * once for several buckets share a statement.
   */
  markPublished(lease: BucketLease, eventIds: readonly EventId[]): Promise<number>;
  /** Sets a row that can never be published aside together with its payment's later rows. */
  park(lease: BucketLease, row: { eventId: EventId; reason: string }): Promise<number>;
  /**
   * Has a parked event wait again, with whatever was parked with it: what waits behind it can be
   * taken as soon as it is published. Returns their ids; none when the event is not parked.
   */
  redrive(eventId: EventId): Promise<EventId[]>;
  /** Gives all leases back, so that another owner need not wait for them to expire. */
  releaseBuckets(owner: string): Promise<void>;
  /**
   * Takes out up to `rowsMax` events that were published longer than `keepMs` ago, a day at least,
   * oldest first. Returns how many. What waits or is parked stays, and so does every key conflict.
   */
  reap(horizon: { keepMs: number; rowsMax: number }): Promise<number>;
  /**
   * Lets events that were published from `since` to before `until` wait again, under the same ids:
   * about `rowsMax` of them, oldest first, each with all events of its payment. Returns how many; 0
   * when none is left. Call it until then; `until` must be in the past, or it never ends. Of these,
   * what stands behind a parked event is held from now on.
   */
  republish(range: { since: Date; until: Date; rowsMax: number }): Promise<number>;
  /**
   * What waits, by its age; of events that were made before `createdBefore`, or of all. It costs
   * what it counts and what is held, however much waits.
   */
  pending(createdBefore?: Date): Promise<Backlog>;
  ping(): Promise<void>;
  close(): Promise<void>;
};

/** An event that the broker acknowledged, and the lease under which it was published. */
export type PublishedMark = BucketLease & { eventId: EventId };

/** A mark for each bucket there is: whoever marks has one under way for a bucket. */
const marksMax = 64;

/**
 * Marks by `Outbox.markPublished`'s contract, in batches: a dispatcher marks each bucket when its
 * publish is acknowledged, and a commit per bucket would cost more than all the marking.
 * `markEvents` gives back the events it marked.
 */
export function markInBatches(
  markEvents: (published: readonly PublishedMark[]) => Promise<readonly EventId[]>,
): Outbox['markPublished'] {
  type Marks = { lease: BucketLease; eventIds: readonly EventId[] };
  const mark = inBatches<Marks, number>(
    async (batch) => {
      const published = batch.flatMap(({ lease, eventIds }) =>
        eventIds.map((eventId) => ({ ...lease, eventId })),
      );
      const marked = new Set(await markEvents(published));
      // Deleting counts an id once, also when two marks of the batch name it.
      return batch.map(({ eventIds }) => eventIds.filter((id) => marked.delete(id)).length);
    },
    { itemsMax: marksMax },
  );
  return async (lease, eventIds) => (eventIds.length === 0 ? 0 : mark({ lease, eventIds }));
}
