import { followUpContract, followUpFields } from './follow-up.ts';

const { amount, reason } = followUpFields;

/** What is said of a refund. */
export const refund = followUpContract('refund', {
  fields: { amount, reason },
  examples: [{ amount: 250, reason: 'returned' }, { amount: 251 }],
  payment: 'the id of the payment it gives back',
  amount: 'minor units; for all that is left, known once the refund is posted',
  noAmount: 'gives back all that is left of the payment',
});
