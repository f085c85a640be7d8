import { createRateLimiter, type RateLimiter } from '@triplock/runtime';

/**
 * How much is answered at once, as https://docs.stripe.com/rate-limits has it: requests a second
 * and requests under way, of all operations together and of each one. What is absent is unlimited.
 */
export type Limits = {
  readonly perSecond?: number;
  readonly perSecondOfEach?: number;
  readonly atOnce?: number;
  readonly atOnceOfEach?: number;
};

/** What `Stripe-Rate-Limited-Reason` says of a 429. */
const limitedReasons = [
  'global-rate',
  'endpoint-rate',
  'global-concurrency',
  'endpoint-concurrency',
] as const;

export type LimitedReason = (typeof limitedReasons)[number];

/** Whether a request goes on; who was admitted says when it has ended. */
export type Admission =
  { outcome: 'admitted'; ended(): void } | { outcome: 'limited'; reason: LimitedReason };

/** The limiters before all else: what they refuse has no effect, and nothing is kept of it. */
export type Limiters = {
  admit(operation: string): Admission;
  set(limits: Limits): void;
  limits(): Limits;
  /** Requests that each has refused since the start. */
  refused(): Readonly<Record<LimitedReason, number>>;
};

/** Nothing is limited yet. */
export function createLimiters(): Limiters {
  let limits: Limits = {};
  let rateOfAll: RateLimiter | undefined;
  let rateOfEach: RateLimiter | undefined;
  const underWay = new Map<string, number>();
  let allUnderWay = 0;
  const counts = Object.fromEntries(limitedReasons.map((reason) => [reason, 0])) as Record<
    LimitedReason,
    number
  >;

  const reasonAgainst = (operation: string): LimitedReason | undefined => {
    const { atOnce = Infinity, atOnceOfEach = Infinity } = limits;
    if (allUnderWay >= atOnce) return 'global-concurrency';
    if ((underWay.get(operation) ?? 0) >= atOnceOfEach) return 'endpoint-concurrency';
    // What the limiter of one operation refuses has counted as a request, as at Stripe.
    if (rateOfAll?.take('all').outcome === 'limited') return 'global-rate';
    return rateOfEach?.take(operation).outcome === 'limited' ? 'endpoint-rate' : undefined;
  };
  const count = (operation: string, by: 1 | -1) => {
    allUnderWay += by;
    underWay.set(operation, (underWay.get(operation) ?? 0) + by);
  };
  return {
    admit(operation) {
      const reason = reasonAgainst(operation);
      if (reason !== undefined) {
        counts[reason] += 1;
        return { outcome: 'limited', reason };
      }
      count(operation, 1);
      return { outcome: 'admitted', ended: () => count(operation, -1) };
    },
    set(next) {
      limits = next;
      rateOfAll = limiterOf(next.perSecond);
      rateOfEach = limiterOf(next.perSecondOfEach);
    },
    limits: () => limits,
    refused: () => ({ ...counts }),
  };
}

function limiterOf(perSecond: number | undefined): RateLimiter | undefined {
  return perSecond === undefined ? undefined : createRateLimiter({ perSecond, burst: perSecond });
}
