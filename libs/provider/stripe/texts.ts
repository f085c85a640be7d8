import type { Failure } from '@triplock/payments';

/** Stripe's codes have up to 50 characters and its messages some hundred; nobody reads more. */
const codeMax = 100;
const messageMax = 500;

/**
 * A failure in the provider's words, as every ledger stores it. An answer off the wire may have
 * anything for a text: PostgreSQL refuses a NUL, and half a surrogate pair is no UTF-8. One such
 * text that was let through would keep its payment from ever being settled.
 */
export function failureOf(code: unknown, message: unknown): Failure {
  return { code: textOf(code, codeMax), message: textOf(message, messageMax) };
}

function textOf(value: unknown, lengthMax: number): string {
  const text = typeof value === 'string' ? value : String(value);
  // The cut comes first, because it may leave half a pair.
  return text.slice(0, lengthMax).toWellFormed().replaceAll('\0', '\uFFFD');
}

// docs.stripe.com/upgrades: ids never exceed 255 characters.
const idPattern = /^[\w-]{1,255}$/;

/** Whether it may be an object's id. Anything else is an answer that makes no sense. */
export function isId(value: unknown): value is string {
  return typeof value === 'string' && idPattern.test(value);
}
