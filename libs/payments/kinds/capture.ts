import type { KindOfFollowUp } from './kind.ts';
import { paidIn } from './payment.ts';

/** Of a payment that was only authorised, so much is taken, and the rest let go. */
export const capture = {
  follows: 'payment',
  closes: true,
  /** The money of a payment that was captured is its capture's. */
  entryOf: paidIn,
  settlement: 'paid',
  ends: { succeeded: 'capture.succeeded', failed: 'capture.failed' },
} as const satisfies KindOfFollowUp;
