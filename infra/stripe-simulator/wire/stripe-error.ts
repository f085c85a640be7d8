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
