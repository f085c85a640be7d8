import type { BucketLease, Outbox } from '@triplock/ledger';

/** The buckets that are ours. Times are those of `performance.now()`. */
export type HeldLeases = {
  leases: ReadonlyMap<number, BucketLease>;
  /** Until then it is safe to believe. */
  validUntil: number;
  /** From when on the database is asked again. */
  askAgainAt: number;
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
    const { leases, moreToCome } = await outbox.leaseBuckets({ owner, leaseMs });
    const byBucket = new Map(leases.map((lease) => [lease.bucket, lease]));
    const askAgainMs = moreToCome ? Math.min(askForMoreMs, leaseMs / 3) : leaseMs / 3;
    held = {
      leases: byBucket,
      validUntil: askedAt + leaseMs,
      askAgainAt: askedAt + askAgainMs,
    };
    return held;
  };
}
