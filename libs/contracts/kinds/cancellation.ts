import { followUpContract, followUpFields } from './follow-up.ts';

const { reason } = followUpFields;

/** What is said of a cancellation. */
export const cancellation = followUpContract('cancellation', {
  fields: { reason },
  examples: [{ reason: 'sold out' }, {}],
  payment: 'the id of the payment it cancels',
  amount: 'minor units that are let go, known once the cancellation is posted',
  noAmount: 'lets the whole payment go',
});
