import type { KindOfFollowUp } from './kind.ts';
import { paidIn } from './payment.ts';

/** Money given back. */
export const refund = {
  follows: 'payment',
  closes: false,
  /** Moves its amount back the way its payment came. */
  entryOf: (movement) => {
    const { debit, credit, money } = paidIn(movement);
    return { debit: credit, credit: debit, money };
  },
  settlement: 'given back',
  ends: { succeeded: 'refund.succeeded', failed: 'refund.failed' },
} as const satisfies KindOfFollowUp;
