/** Seconds of `Prefer: wait=N` (RFC 7240), 0 to 30; `undefined` when absent, malformed or larger. */
export function preferredWaitSeconds(
  _header: string | readonly string[] | undefined,
): number | undefined {
  throw new Error('not built');
}
