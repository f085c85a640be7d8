import { randomBytes } from 'node:crypto';

const form = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/**
 * The caller's `traceparent` when it has the form of W3C Trace Context (version 00), else a new
 * one. It is carried through every hop and decides nothing.
 */
export function traceparentFrom(incoming: string | undefined): string {
  if (incoming !== undefined && form.test(incoming)) return incoming;
  return `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`;
}
