import type { Failure } from '@triplock/payments';

/** Codes of providers have up to 50 characters, messages some hundred; nobody reads more. */
const codeMax = 100;
const messageMax = 500;

/**
 * A failure in the provider's words, as every ledger stores it. An answer off the wire may have
 * anything for a text: PostgreSQL refuses a NUL, and half a surrogate pair is no UTF-8. One such
 * text that was let through would keep its payment from ever being settled.
 */
export function failureOf(code: unknown, message: unknown): Failure {
  return { code: storableText(code, codeMax), message: storableText(message, messageMax) };
}

/** The same of any text of a provider's, so many UTF-16 units of it at most. */
export function storableText(value: unknown, lengthMax: number): string {
  const text = typeof value === 'string' ? value : String(value);
  // The cut comes first, because it may leave half a pair.
  return text.slice(0, lengthMax).toWellFormed().replaceAll('\0', '\uFFFD');
}
