import type { Stripe } from 'stripe';

/**
 * https://docs.stripe.com/api/errors: the `error` of a body, with the fields that are simulated.
 */
export type StripeError = {
  type: 'api_error' | 'card_error' | 'idempotency_error' | 'invalid_request_error';
  message: string;
  code?: string;
  decline_code?: string;
  param?: string;
  charge?: string;
  doc_url?: string;
  payment_intent?: Stripe.PaymentIntent;
  payment_method?: Stripe.PaymentMethod;
};

/** What is sent back. `retry` becomes `Stripe-Should-Retry`; undefined leaves the header out. */
export type Answer = {
  readonly status: number;
  readonly body: string;
  readonly retry?: 'yes' | 'no';
  readonly headers?: Readonly<Record<string, string>>;
};

/** An error in Stripe's form; those with a code name the page that explains it. */
export function errorAnswer(
  status: number,
  error: StripeError,
  sent: Pick<Answer, 'retry' | 'headers'> = {},
): Answer {
  const page =
    error.code && `https://docs.stripe.com/error-codes#${error.code.replaceAll('_', '-')}`;
  const body = page ? { ...error, doc_url: page } : error;
  return { status, body: JSON.stringify({ error: body }), ...sent };
}

/** 400 `invalid_request_error`: what is asked for makes no sense. */
export function invalidRequest(
  message: string,
  about: Omit<StripeError, 'type' | 'message'> = {},
): Answer {
  return errorAnswer(400, { type: 'invalid_request_error', message, ...about });
}

/** `resource_missing`: 404 when the URL names it, 400 when a parameter does. */
export function resourceMissing(what: { kind: string; id: string; param?: string }): Answer {
  const status = what.param === undefined ? 404 : 400;
  const param = what.param ?? (what.kind === 'payment_intent' ? 'intent' : 'id');
  const message = `No such ${what.kind}: '${what.id}'`;
  return errorAnswer(status, {
    type: 'invalid_request_error',
    code: 'resource_missing',
    message,
    param,
  });
}

/**
 * https://docs.stripe.com/api/authentication: a bearer token, or basic authentication with the key
 * as the user name. Every test key opens the one simulated account; a live key does not belong
 * here.
 */
export function authenticate(header: string | undefined): Answer | undefined {
  const key = keyOf(header ?? '');
  if (key === undefined) return refuse('You did not provide an API key.');
  if (key.startsWith('sk_live_') || key.startsWith('rk_live_')) {
    return refuse('This is a simulator: a live key must not be sent to it.');
  }
  // The key itself is not repeated: answers end up in logs.
  return /^[sr]k_test_\w+$/.test(key) ? undefined : refuse('Invalid API Key provided');
}

function keyOf(header: string): string | undefined {
  const [, scheme, credentials] = /^(\w+)\s+(\S+)$/.exec(header.trim()) ?? [];
  if (scheme?.toLowerCase() === 'bearer') return credentials;
  if (scheme?.toLowerCase() !== 'basic') return undefined;
  return Buffer.from(credentials ?? '', 'base64')
    .toString('utf8')
    .split(':')[0];
}

function refuse(message: string): Answer {
  const headers = { 'www-authenticate': 'Bearer realm="Stripe"' };
  return errorAnswer(401, { type: 'invalid_request_error', message }, { headers });
}

/** The version that the pinned `stripe` package speaks; a test compares the two. */
export const apiVersion = '2026-10-28.endive';
