/** Counts what each caller does, and says which one does too much. */
export type RateLimiter = { take(who: string): Taken };

/** `limited`: nothing was taken, and there is something again in so many seconds, 1 at least. */
export type Taken = { outcome: 'granted' } | { outcome: 'limited'; retryAfterSeconds: number };

/** So many a second, and so many at once after a rest. */
export type Rate = { perSecond: number; burst: number };

// Whoever is forgotten begins with a full burst. At about 100 bytes each it is a megabyte.
const rememberedMax = 10_000;

const granted: Taken = { outcome: 'granted' };

/**
 * A token bucket for each name, in the memory of this process: several gateways grant as many times
 * as much together. `clock` gives milliseconds; tests turn it by hand.
 *
 * A limit shared through Redis would cost every request a round trip to it, to be exact about a
 * number that is there to protect this process.
 */
export function createRateLimiter(
  { perSecond, burst }: Rate,
  clock: () => number = () => performance.now(),
): RateLimiter {
  const buckets = new Map<string, { tokens: number; atMs: number }>();
  const bucketOf = (who: string, nowMs: number) => {
    const known = buckets.get(who);
    if (known !== undefined) return known;
    // A Map keeps the order of insertion, so the first key is the oldest.
    if (buckets.size >= rememberedMax) buckets.delete(buckets.keys().next().value!);
    const bucket = { tokens: burst, atMs: nowMs };
    buckets.set(who, bucket);
    return bucket;
  };
  return {
    take(who) {
      const nowMs = clock();
      const bucket = bucketOf(who, nowMs);
      const grown = ((nowMs - bucket.atMs) * perSecond) / 1_000;
      bucket.tokens = Math.min(burst, bucket.tokens + grown);
      bucket.atMs = nowMs;
      if (bucket.tokens >= 1) {
        bucket.tokens -= 1;
        return granted;
      }
      const retryAfterSeconds = Math.max(1, Math.ceil((1 - bucket.tokens) / perSecond));
      return { outcome: 'limited', retryAfterSeconds };
    },
  };
}
