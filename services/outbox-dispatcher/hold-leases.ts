import type { BucketLease, Outbox } from '@triplock/ledger';

/** The buckets that are ours, and until when that is safe to believe (`performance.now()`). */
export type HeldLeases = { leases: ReadonlyMap<number, BucketLease>; validUntil: number };

/** Gives the leases held, renewed when a third of their time is over. */
export type LeaseHolder = () => Promise<HeldLeases>;

/**
 * Holds a dispatcher's share of the buckets. Validity is counted from before the database was
 * asked, on the clock that never jumps, so it ends here earlier than it ends there.
 */
export function holdLeases(
  outbox: Pick<Outbox, 'leaseBuckets'>,
  { owner, leaseMs }: { owner: string; leaseMs: number },
): LeaseHolder {
  let held: HeldLeases = { leases: new Map(), validUntil: -Infinity };
  return async () => {
    const askedAt = performance.now();
    if (held.validUntil - askedAt > (leaseMs * 2) / 3) return held;
    const leases = await outbox.leaseBuckets({ owner, leaseMs });
    const byBucket = new Map(leases.map((lease) => [lease.bucket, lease]));
    held = { leases: byBucket, validUntil: askedAt + leaseMs };
    return held;
  };
}
