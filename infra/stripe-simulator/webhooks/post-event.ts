import { signEvent } from './sign-event.ts';

/** Stripe gives an endpoint some seconds; a slow one gets the event again. */
const answerWithinMs = 10_000;

/**
 * Sends one copy of an event. Only a 2xx is taking it; a redirect is not followed
 * (https://docs.stripe.com/webhooks#retries).
 */
export async function postEvent(
  payload: string,
  to: { url: string; secret: string },
): Promise<'taken' | 'not-taken'> {
  const sentAt = Math.floor(Date.now() / 1_000);
  try {
    const response = await fetch(to.url, {
      method: 'POST',
      body: payload,
      redirect: 'manual',
      signal: AbortSignal.timeout(answerWithinMs),
      headers: {
        'content-type': 'application/json; charset=utf-8',
        'stripe-signature': signEvent(payload, { secret: to.secret, sentAt }),
        'user-agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)',
      },
    });
    await response.body?.cancel();
    return response.ok ? 'taken' : 'not-taken';
  } catch {
    // Refused, reset or too slow: whatever it was, the event is sent again.
    return 'not-taken';
  }
}
