import { followUpContract, followUpFields } from './follow-up.ts';

const { amount } = followUpFields;

/** What is said of a capture. */
export const capture = followUpContract('capture', {
  fields: { amount },
  examples: [{ amount: 250 }, {}],
  payment: 'the id of the payment it captures',
  amount: 'minor units; for all of it, known once the capture is posted',
  noAmount: 'captures the whole payment',
});
