/** Every limit of the HTTP edge. Tests shorten the times; nothing else changes them. */
export type HttpLimits = {
  bodyBytesMax: number;
  headBytesMax: number;
  uriBytesMax: number;
  headTimeoutMs: number;
  requestTimeoutMs: number;
  timeoutCheckMs: number;
  idleConnectionMs: number;
  drainMs: number;
};

/** The limits that the interface promises. */
export const httpLimits: HttpLimits = {
  // A payment with every field at its longest is about 45 KiB, escapes included.
  bodyBytesMax: 64 * 1024,
  headBytesMax: 16 * 1024,
  // No path or query of ours comes near it, and it leaves half of the head to the headers.
  uriBytesMax: 8 * 1024,
  headTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  // Node looks at slow connections this often, so a limit is kept to within half a second.
  timeoutCheckMs: 500,
  // Longer than the 60 s after which common load balancers drop an idle connection, so that they do
  // it and never find one that was just closed here.
  idleConnectionMs: 75_000,
  // Every request at work is answered within 3 s; what holds a connection longer is none.
  drainMs: 5_000,
};
