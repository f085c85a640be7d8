import { createHash } from 'node:crypto';
import type { Caller } from '../provider.ts';

// docs.stripe.com/api/idempotent_requests: "keys can be up to 255 characters".
const lengthMax = 255;

/** What a caller asks of the provider; one key each. */
export type Call = 'create' | 'confirm' | `confirm:${number}` | 'cancel' | 'refund';

/**
 * The partner's key, passed through: `partner:key:call`. A partner's id has no colon, so no two
 * callers share one. When it is too long for Stripe it is the SHA-256 of that, in hex.
 */
export function idempotencyKeyOf({ partnerId, key }: Caller, call: Call): string {
  const whole = `${partnerId}:${key}:${call}`;
  return whole.length <= lengthMax ? whole : createHash('sha256').update(whole).digest('hex');
}
