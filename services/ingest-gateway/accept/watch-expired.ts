import { shareReads } from '@triplock/runtime';
import type { TopicOffsets } from '@triplock/transport';

/** Tells whether the ledger has posted everything whose claim has expired. */
export type Expired = { arePosted(): Promise<boolean> };

/**
 * A claim lives for 24 hours from its first request, and its record may be younger: a retry after a
 * release is accepted under the same claim. So the ledger must have come much closer than that; one
 * that is later still cannot vouch, and a partner asks again.
 */
const lateMaxMs = 3_600_000;

/** For so long one answer holds: short beside a claim's life, less what the ledger may be late. */
const trustedMs = 600_000;

// Kafka is asked for all waiting requests together, and this often at most.
const askLimits = { apartMs: 100 };

/**
 * Watches whether the ledger's workers have posted all records that are older than an hour. An
 * expired claim looks like one that never was, and the topic keeps records for longer than claims
 * live: while the workers are later than that, what the ledger does not know may yet be posted.
 *
 * The time of a record is the clock of the gateway that appended it; an hour is also for those.
 */
export function watchExpired(offsets: Pick<TopicOffsets, 'committed' | 'since'>): Expired {
  let provenAt = -Infinity;
  const ask = shareReads(async (): Promise<boolean> => {
    const askedAt = performance.now();
    const [young, committed] = await Promise.all([
      offsets.since(new Date(Date.now() - lateMaxMs)),
      offsets.committed(),
    ]);
    const posted = [...young].every(
      ([partition, offset]) => (committed.get(partition) ?? 0n) >= offset,
    );
    if (posted) provenAt = askedAt;
    return posted;
  }, askLimits);
  return {
    arePosted: async () => performance.now() - provenAt < trustedMs || ask(),
  };
}
