import type { FollowUpKind } from '@triplock/payments';

/** What records call an end of a kind that follows a payment, or that it waits for that one. */
export const followUpOutcomes = {
  refund: { succeeded: 'refunded', failed: 'refund-failed', waiting: 'refund-waiting' },
  capture: { succeeded: 'captured', failed: 'capture-failed', waiting: 'capture-waiting' },
  cancellation: {
    succeeded: 'cancelled',
    failed: 'cancellation-failed',
    waiting: 'cancellation-waiting',
  },
} as const satisfies Record<FollowUpKind, Record<'succeeded' | 'failed' | 'waiting', string>>;

/** The names of such ends. */
export type FollowUpOutcomeName<End extends 'succeeded' | 'failed' | 'waiting'> =
  (typeof followUpOutcomes)[FollowUpKind][End];
