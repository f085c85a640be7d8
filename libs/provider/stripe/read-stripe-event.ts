import Stripe from 'stripe';

/** What of a webhook of Stripe's is acted on: which intent or refund has something new. */
export type StripeEvent = { id: string; type: string; intentId: string };

/** What reading a webhook gives. */
export type ReadStripeEvent =
  | { outcome: 'event'; event: StripeEvent }
  /** Genuine, and about nothing that is waited for. */
  | { outcome: 'ignored'; type: string }
  /** Not signed by Stripe with our secret, too old, or altered. */
  | { outcome: 'forged'; detail: string };

/**
 * Verifies a webhook over its raw bytes (docs.stripe.com/webhooks#verify-official-libraries): its
 * signature and that it was signed within the last five minutes. What it says is only a hint to
 * look: the state of an intent is read from Stripe, so order and copies do not matter.
 */
export function readStripeEvent(received: {
  body: Buffer;
  signature: string | undefined;
  secret: string;
}): ReadStripeEvent {
  const { body, signature, secret } = received;
  if (signature === undefined) return { outcome: 'forged', detail: 'without Stripe-Signature' };
  try {
    const { id, type, data } = Stripe.webhooks.constructEvent(body, signature, secret);
    const intentId = intentOf(data.object as { id?: unknown; payment_intent?: unknown });
    if (intentId === undefined) return { outcome: 'ignored', type };
    return { outcome: 'event', event: { id, type, intentId } };
  } catch (error) {
    return { outcome: 'forged', detail: (error as Error).message };
  }
}

/** An intent's event is about that intent; a refund's or a charge's names it. */
function intentOf(object: { id?: unknown; payment_intent?: unknown }): string | undefined {
  const ids = [object.payment_intent, object.id];
  return ids.find((id): id is string => typeof id === 'string' && id.startsWith('pi_'));
}
