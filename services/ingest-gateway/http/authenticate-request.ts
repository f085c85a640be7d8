import { Problem } from '@triplock/contracts';
import type { Authentication } from '@triplock/partners';
import type { FastifyRequest } from 'fastify';
import { callerAddress } from './caller-address.ts';
import type { RateLimiter } from './rate-limiter.ts';

/** Who may ask for anything, and how often. */
export type Admission = {
  /** Reject with a `Problem('unavailable', …)` when it cannot be known whose key it is. */
  authenticate(apiKey: string): Promise<Authentication>;
  /** All requests of a partner. */
  partnerRate: RateLimiter;
  /** Requests without a valid key from one address. */
  failureRate: RateLimiter;
};

// RFC 6750, section 2.1; schemes are case-insensitive (RFC 9110, section 11.1).
const bearerToken = /^bearer +([\w.~+/-]+=*)$/i;

/**
 * A hook that lets only known API keys in, no more often than their rate, and sets
 * `request.partnerId`. A missing, malformed or unknown key gets the same 401, so that an answer
 * says nothing about keys, and 429 once its address has sent too many.
 *
 * The address is looked at only after the key was found to be none: a partner whose neighbour
 * behind one address sends bad keys is served all the same.
 */
export function authenticateRequest({ authenticate, partnerRate, failureRate }: Admission) {
  return async (request: FastifyRequest): Promise<void> => {
    if (request.routeOptions.config.access === 'public') return;
    const [, apiKey] = bearerToken.exec(request.headers.authorization ?? '') ?? [];
    const authentication = apiKey === undefined ? undefined : await authenticate(apiKey);
    if (authentication?.outcome !== 'authenticated') {
      admit(failureRate, callerAddress(request));
      throw new Problem('unauthorized', 'Send a valid API key: Authorization: Bearer <api key>.', {
        headers: { 'www-authenticate': 'Bearer' },
      });
    }
    admit(partnerRate, authentication.partnerId);
    request.partnerId = authentication.partnerId;
  };
}

function admit(rate: RateLimiter, who: string): void {
  const taken = rate.take(who);
  if (taken.outcome === 'granted') return;
  throw new Problem('rate_limited', 'Send requests more slowly; nothing was done with this one.', {
    headers: { 'Retry-After': `${taken.retryAfterSeconds}` },
  });
}
