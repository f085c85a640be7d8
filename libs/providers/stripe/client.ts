import { createHash } from 'node:crypto';
import type { Money, TxnId } from '@triplock/payments';
import type Stripe from 'stripe';
import type { Attempt, Caller } from '@triplock/provider';
import { toStripe } from './currencies.ts';
import { stripePackage } from './package.ts';

/** Where Stripe answers, and for how long it is waited for. */
export type StripeOptions = {
  apiKey: string;
  /** Another URL that speaks Stripe's API, such as the simulator; Stripe itself when absent. */
  apiUrl?: string;
  /** Until a call is given up, its outcome being unknown then; milliseconds. */
  timeoutMs: number;
};

/**
 * The official client. Its own retries are off: the caller knows what may be asked again. It
 * still sends once more after a reset connection, under the same idempotency key.
 */
export function openClient({ apiKey, apiUrl, timeoutMs }: StripeOptions): Stripe {
  return new (stripePackage())(apiKey, {
    ...addressOf(apiUrl),
    timeout: timeoutMs,
    maxNetworkRetries: 0,
    telemetry: false,
    httpClient: refusingBareValues(stripePackage().createNodeHttpClient()),
  });
}

type HttpClient = ReturnType<typeof Stripe.createNodeHttpClient>;

/**
 * The package (23.1) takes any JSON for an object: a text or a number, as a proxy may answer, ends
 * the process by a rejection that nobody handles, and the call never returns. Refused here, it
 * becomes an error like any other answer that makes no sense.
 */
function refusingBareValues(client: HttpClient): HttpClient {
  const makeRequest = client.makeRequest.bind(client);
  client.makeRequest = async (...request) => {
    const response = await makeRequest(...request);
    const toJSON = response.toJSON.bind(response);
    response.toJSON = async () => {
      const answer: unknown = await toJSON();
      if (typeof answer === 'object' && answer !== null) return answer;
      throw new Error('an answer that is no object');
    };
    return response;
  };
  return client;
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

// docs.stripe.com/api/idempotent_requests: "keys can be up to 255 characters".
const lengthMax = 255;

/** What a caller asks of the provider. */
type Call = 'charge' | 'create' | 'confirm' | 'capture' | 'refund';

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

/**
 * What every object of ours at Stripe carries; an answer off the wire may have any of it missing.
 */
type Ours = { amount?: number; currency?: string; metadata?: { [name: string]: string } | null };

/** Whether it is of this transaction, for its amount and in its currency. */
export function isAbout(
  { amount, currency, metadata }: Ours,
  { txnId, money }: { txnId: TxnId; money: Money },
): boolean {
  const asked = toStripe(money);
  return (
    asked.outcome === 'expressible' &&
    amount === asked.amount &&
    currency === asked.currency &&
    metadata?.['txn_id'] === txnId
  );
}
