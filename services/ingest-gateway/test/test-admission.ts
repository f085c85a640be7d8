import type { Admission } from '../http/authenticate-request.ts';
import { createRateLimiter, type Rate } from '../http/rate-limiter.ts';

const unlimited: Rate = { perSecond: 1_000_000, burst: 1_000_000 };

/** An admission by the test's own word about keys, without limits unless it names some. */
export function testAdmission(
  authenticate: Admission['authenticate'],
  rates: { partnerRate?: Rate; failureRate?: Rate } = {},
): Admission {
  return {
    authenticate,
    partnerRate: createRateLimiter(rates.partnerRate ?? unlimited),
    failureRate: createRateLimiter(rates.failureRate ?? unlimited),
  };
}
