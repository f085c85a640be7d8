import { randomBytes } from 'node:crypto';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * An id in Stripe's form: a prefix for the kind, then letters and digits that cannot be guessed.
 */
export function newId(prefix: string, length = 24): string {
  let id = prefix;
  while (id.length < prefix.length + length) {
    for (const byte of randomBytes(length)) {
      // Bytes beyond the last whole alphabet would favour its first letters.
      if (byte < 248 && id.length < prefix.length + length) id += alphabet[byte % 62];
    }
  }
  return id;
}
