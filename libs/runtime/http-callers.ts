import { isIP, isIPv6, type Socket } from 'node:net';

/** What a request says of where it comes from, and where it does come from. */
export type Caller = { ip: string; socket: Pick<Socket, 'remoteAddress'> };

/**
 * Whom a request without a right is counted to: the caller's IPv4 address, or its IPv6 network of 64
 * bits, because one machine has all addresses of such a network to choose from. What a proxy says
 * counts only when it is trusted and says an address.
 */
export function callerAddress({ ip, socket }: Caller): string {
  const address = isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  return isIPv6(address) ? networkOf(address) : address;
}

function networkOf(address: string): string {
  // The URL standard writes an address in one form: lower case, hexadecimal, shortest.
  const [zone] = address.split('%', 1);
  const { hostname } = new URL(`http://[${zone}]`);
  const [head = '', tail = ''] = hostname.slice(1, -1).split('::');
  const before = head.split(':').filter((group) => group !== '');
  const after = tail.split(':').filter((group) => group !== '');
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].slice(0, 4).join(':');
}

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
 * as much together. `clock` gives milliseconds; tests set it.
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
