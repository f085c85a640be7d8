import { Problem } from '@triplock/contracts';

// Most waits end within milliseconds, and asking again is cheap: the shortest that the header can
// say.
const retryAfter = { headers: { 'Retry-After': '1' } };

/** The same request is at work: 409. */
export function inUse(): Problem {
  const detail = 'A request with this key is at work. Send the same request again in a moment.';
  return new Problem('idempotency_key_in_use', detail, retryAfter);
}

/** The key belongs to another request: 422. */
export function reused(): Problem {
  const detail = 'This key was used for another request. Send this one with a new key.';
  return new Problem('idempotency_key_reused', detail);
}

/** Whether the request was accepted is unknown: 503. */
export function maybeAccepted(): Problem {
  const detail = 'Send the same request with the same key again: it takes effect once.';
  return new Problem('unavailable', detail, retryAfter);
}

/** Whatever would have to be asked does not answer: 503. */
export function unknownYet(): Problem {
  return new Problem('unavailable', 'Send the request again in a moment.', retryAfter);
}

/** Nothing there, or another partner's: 404. */
export function notFound(what: 'payment' | 'refund'): Problem {
  return new Problem('not_found', `There is no such ${what}.`);
}
