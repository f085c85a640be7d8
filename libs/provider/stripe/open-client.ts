import Stripe from 'stripe';

/** Where Stripe answers, and for how long it is waited for. */
export type StripeOptions = {
  apiKey: string;
  /** Another place that speaks Stripe's API, such as the simulator; Stripe itself when absent. */
  apiUrl?: string;
  /** Until a call is given up, its outcome being unknown then; milliseconds. */
  timeoutMs: number;
};

/**
 * The official client. Its own retries are off: whoever calls knows what may be asked again. It still
 * sends once more after a reset connection, under the same idempotency key.
 */
export function openClient({ apiKey, apiUrl, timeoutMs }: StripeOptions): Stripe {
  return new Stripe(apiKey, {
    ...addressOf(apiUrl),
    timeout: timeoutMs,
    maxNetworkRetries: 0,
    telemetry: false,
  });
}

function addressOf(apiUrl: string | undefined): Stripe.StripeConfig {
  if (apiUrl === undefined) return {};
  const { hostname, port, protocol } = new URL(apiUrl);
  return {
    host: hostname,
    ...(port === '' ? {} : { port }),
    protocol: protocol === 'http:' ? 'http' : 'https',
  };
}
