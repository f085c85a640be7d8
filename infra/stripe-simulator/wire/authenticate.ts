import { errorAnswer, type Answer } from './stripe-error.ts';

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
