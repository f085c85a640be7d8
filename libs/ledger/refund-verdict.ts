import type { Settlement } from '@triplock/payments';

const refusals = {
  payment_not_refundable: 'Only a payment that succeeded can be refunded.',
  amount_exceeds_refundable: 'More than what is left of the payment.',
};

/** What looking at a refund's payment came to. */
export type Verdict =
  /** Its amount is held on the payment, now or before. */
  | 'reserved'
  /** Its payment is pending, or not there and may still come. */
  | 'waiting'
  /** It can never be given back. */
  | keyof typeof refusals;

/** The end that a verdict leads to where no provider has to be asked. */
export function resultOf(verdict: Exclude<Verdict, 'waiting'>): Settlement {
  if (verdict === 'reserved') return { state: 'succeeded' };
  return { state: 'failed', failure: { code: verdict, message: refusals[verdict] } };
}
