import type { Fault } from '../faults/faults.ts';
import { errorAnswer, invalidRequest, type Answer } from '../wire/stripe-error.ts';

/** What a fault answers before the request is looked at; undefined when it lets it through. */
export function refusedBy(fault: Fault): Answer | undefined {
  switch (fault.fault) {
    case 'rate-limit':
      return rateLimited(fault);
    case 'lock-timeout':
      return lockTimeout();
    case 'unavailable':
      return errorAnswer(503, { type: 'api_error', message: 'Stripe is temporarily unavailable.' });
    case 'reset':
      // Nobody gets to read it: the connection is closed instead.
      return errorAnswer(503, { type: 'api_error', message: 'The connection was reset.' });
    case 'hold':
    case 'error':
    case 'error-after':
    case 'slow':
    case 'time-out':
    case 'reset-after':
    case 'half-body':
      return undefined;
  }
}

/** https://docs.stripe.com/rate-limits */
function rateLimited({ retryAfterSeconds = 1 }: Fault): Answer {
  const headers = {
    'retry-after': String(retryAfterSeconds),
    'stripe-rate-limited-reason': 'global-rate',
  };
  const message = 'Request rate limit exceeded. You can learn more about rate limits here.';
  return errorAnswer(
    429,
    { type: 'invalid_request_error', code: 'rate_limit', message },
    { headers },
  );
}

/** https://docs.stripe.com/rate-limits#object-lock-timeouts */
function lockTimeout(): Answer {
  const message =
    'This object cannot be accessed right now because another API request or Stripe process is ' +
    'currently accessing it. If you see this error intermittently, retry the request.';
  const error = { type: 'invalid_request_error', code: 'lock_timeout', message } as const;
  return errorAnswer(429, error, { retry: 'yes' });
}

/**
 * The package says why not to retry: "our idempotency framework would typically replay it anyway".
 */
export function internalError(): Answer {
  const message = "Something went wrong on Stripe's end.";
  return errorAnswer(500, { type: 'api_error', message }, { retry: 'no' });
}

/** "Idempotency keys are up to 255 characters long." */
export function keyTooLong(): Answer {
  return invalidRequest('Idempotency keys can have up to 255 characters.');
}

/** 409 `idempotency_key_in_use`: https://docs.stripe.com/error-codes#idempotency-key-in-use */
export function keyInUse(key: string): Answer {
  const message =
    'There is currently another in-progress request using this Idempotent Key (that probably means ' +
    `you submitted twice, and the other request is still going through): ${key}. Please try again later.`;
  const error = { type: 'invalid_request_error', code: 'idempotency_key_in_use', message } as const;
  return errorAnswer(409, error, { retry: 'yes' });
}

/** "Errors if they're not the same to prevent accidental misuse." */
export function otherParams(key: string): Answer {
  return mismatch(
    'Keys for idempotent requests can only be used with the same parameters they were first used with.',
    key,
  );
}

/** The same key at another endpoint. */
export function otherPath(of: { key: string; path: string; first: string }): Answer {
  const were = `('${of.path}' vs '${of.first}')`;
  return mismatch(
    `Keys for idempotent requests can only be used for the same endpoint they were first used for ${were}.`,
    of.key,
  );
}

function mismatch(what: string, key: string): Answer {
  const message = `${what} Try using a key other than '${key}' if you meant to execute a different request.`;
  return errorAnswer(400, { type: 'idempotency_error', message }, { retry: 'no' });
}
