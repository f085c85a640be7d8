import { createHmac } from 'node:crypto';

/**
 * The `Stripe-Signature` of a payload: HMAC-SHA256 of `t.payload`, in hex
 * (https://docs.stripe.com/webhooks#verify-manually). `sentAt` in seconds since 1970 by the
 * machine's clock and not the simulator's: the receiver compares it with its own, with a tolerance
 * of 300 s.
 */
export function signEvent(payload: string, by: { secret: string; sentAt: number }): string {
  const signed = createHmac('sha256', by.secret).update(`${by.sentAt}.${payload}`).digest('hex');
  return `t=${by.sentAt},v1=${signed}`;
}
