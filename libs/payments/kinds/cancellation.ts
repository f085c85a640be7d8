import type { KindOfFollowUp } from './kind.ts';

/** A payment that was only authorised is let go. */
export const cancellation = {
  follows: 'payment',
  closes: true,
  entryOf: () => undefined,
  ends: { succeeded: 'cancellation.succeeded', failed: 'cancellation.failed' },
} as const satisfies KindOfFollowUp;
