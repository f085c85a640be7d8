import type { Outbox, OutboxEvent } from '@triplock/ledger';
import type { Pass } from '@triplock/runtime';
import type { LeaseHolder } from './hold-leases.ts';
import { publishBucket, type BucketOutcome, type PublishParts } from './publish-bucket.ts';

/** What a pass stands on. `publishLimitMs` bounds all that is sent of one bucket in a pass. */
export type PassParts = Omit<PublishParts, 'outbox'> & {
  outbox: Pick<Outbox, 'take' | 'markPublished' | 'park'>;
  holdLeases: LeaseHolder;
  rowsMax: number;
  publishLimitMs: number;
};

/** What is left of the lease for the mark, when a publish took as long as it may. */
const markMs = 500;

/**
 * One pass: hold the leases, take what waits in them, publish each bucket in order, side by side.
 * The pass counts what left the outbox. When nothing could leave because the broker does not
 * answer, it throws, and the loop tries again after a while.
 */
export function publishEvents(parts: PassParts): Pass {
  return async () => {
    const { leases, validUntil } = await parts.holdLeases();
    parts.metrics.leases.set(leases.size);
    if (leases.size === 0) return 0;
    await parts.crashPoints.reached('dispatcher.leased');
    const rows = await parts.outbox.take([...leases.values()], parts.rowsMax);

    // A publish that begins now must end, and be marked, while the bucket is certainly ours.
    // Pub/Sub checks no epoch: a paused process that wakes up later publishes copies, and the inbox
    // absorbs those.
    if (performance.now() + parts.publishLimitMs + markMs > validUntil) return 0;
    // All are waited for, whatever becomes of one: a publish still under way while the next pass
    // takes the same rows would break the bucket's order.
    const outcomes = await Promise.allSettled(
      [...groupByBucket(rows)].map(([bucket, ofBucket]) =>
        publishBucket(parts, { lease: leases.get(bucket)!, rows: ofBucket }),
      ),
    );
    return countDone(outcomes);
  };
}

function countDone(outcomes: readonly PromiseSettledResult<BucketOutcome>[]): number {
  let done = 0;
  let failure: Error | undefined;
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') done += outcome.value.done;
    failure ??= outcome.status === 'fulfilled' ? outcome.value.failure : (outcome.reason as Error);
  }
  if (done === 0 && failure !== undefined) throw failure;
  return done;
}

function groupByBucket(rows: readonly OutboxEvent[]): Map<number, OutboxEvent[]> {
  return Map.groupBy(rows, (row) => row.bucket);
}
