import { createHash } from 'node:crypto';
import type { Attempt, Caller } from '../provider.ts';

// docs.stripe.com/api/idempotent_requests: "keys can be up to 255 characters".
const lengthMax = 255;

/** What a caller asks of the provider. */
export type Call = 'create' | 'confirm' | 'refund';

/**
 * The partner's key, passed through: `partner:key:call`, and the number of an attempt that is not
 * the first. A partner's id has no colon and a call ends in no number, so no two callers share one.
 * When it is too long for Stripe it is the SHA-256 of that, in hex.
 */
export function idempotencyKeyOf(
  { partnerId, key, attempt = 1 }: Caller & Partial<Attempt>,
  call: Call,
): string {
  const whole = `${partnerId}:${key}:${call}${attempt === 1 ? '' : `:${attempt}`}`;
  return whole.length <= lengthMax ? whole : createHash('sha256').update(whole).digest('hex');
}
