import { randomFillSync } from 'node:crypto';

const form = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Whether it has the form of W3C Trace Context, version 00. */
export function isTraceparent(header: string): boolean {
  return form.test(header);
}

/**
 * The caller's `traceparent` when it has the form of W3C Trace Context (version 00), else a new
 * one. It is carried through every hop and decides nothing.
 */
export function traceparentFrom(incoming: string | undefined): string {
  if (incoming !== undefined && isTraceparent(incoming)) return incoming;
  return `00-${randomHex(16)}-${randomHex(8)}-01`;
}

// Drawn for 128 traces at once: two draws a request would take twenty times as long.
const drawn = Buffer.alloc(128 * 24);
let used = drawn.length;

/** So many bytes that were never given before, as lower-case hex. */
function randomHex(bytes: number): string {
  if (used + bytes > drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  used += bytes;
  return drawn.toString('hex', used - bytes, used);
}
