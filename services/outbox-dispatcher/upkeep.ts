import type { BucketLease, Outbox } from '@triplock/ledger';
import type { Pass } from '@triplock/runtime';
import type { DispatcherMetrics } from './metrics.ts';

/** The buckets that are ours. Times are those of `performance.now()`. */
export type HeldLeases = {
  leases: ReadonlyMap<number, BucketLease>;
  /** Until then it is safe to believe. */
  validUntil: number;
  /** From when on the database is asked again. */
  askAgainAt: number;
  /** On which server they are ours, where the outbox says so. */
  server?: string;
};

/** Gives the leases held, renewed when a third of their time is over, or sooner to get more. */
export type LeaseHolder = () => Promise<HeldLeases>;

/** A bucket that another dispatcher gives up waits no longer than this for its new owner. */
const askForMoreMs = 250;

/**
 * Holds a dispatcher's share of the buckets. Validity is counted from before the database was
 * asked, on the clock that never jumps, so it ends here earlier than it ends there.
 */
export function holdLeases(
  outbox: Pick<Outbox, 'leaseBuckets'>,
  { owner, leaseMs }: { owner: string; leaseMs: number },
): LeaseHolder {
  let held: HeldLeases = { leases: new Map(), validUntil: -Infinity, askAgainAt: -Infinity };
  return async () => {
    const askedAt = performance.now();
    if (askedAt < held.askAgainAt) return held;
    const { leases, moreToCome, server } = await outbox.leaseBuckets({ owner, leaseMs });
    const byBucket = new Map(leases.map((lease) => [lease.bucket, lease]));
    const askAgainMs = moreToCome ? Math.min(askForMoreMs, leaseMs / 3) : leaseMs / 3;
    held = {
      leases: byBucket,
      validUntil: askedAt + leaseMs,
      askAgainAt: askedAt + askAgainMs,
      ...(server !== undefined && { server }),
    };
    return held;
  };
}

/** So few that a batch is done in some milliseconds and holds up no mark. */
const reapRowsMax = 500;

/**
 * A pass that removes events from the outbox which were published longer than `keepMs` ago: one
 * small batch, and the loop comes again at once while there is more. Two dispatchers wait for one
 * another.
 */
export function reapOutbox(outbox: Outbox, metrics: DispatcherMetrics, keepMs: number): Pass {
  return async () => {
    const reaped = await outbox.reap({ keepMs, rowsMax: reapRowsMax });
    metrics.reaped.inc(reaped);
    return reaped;
  };
}

/** A pass that measures what waits to be published. It never has more to do, so it rests. */
export function measureBacklog(outbox: Outbox, metrics: DispatcherMetrics): Pass {
  return async () => {
    const { rows, oldestSeconds, held } = await outbox.pending();
    metrics.waiting.set(rows);
    metrics.oldestSeconds.set(oldestSeconds);
    metrics.held.set(held);
    return 0;
  };
}
