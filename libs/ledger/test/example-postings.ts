import type { AcceptedPayment, AcceptedRefund, Settlement } from '@triplock/payments';
import { aPayment } from '@triplock/testing';
import type { Posting, PostOutcome } from '../ledger.ts';
import type { RefundsUnderTest } from './under-test.ts';

export const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';
/** When everything here is settled. */
export const settledNow = new Date('2026-03-04T05:06:07.089Z');

export function bookTransferOf(payment: AcceptedPayment): Posting {
  return settledAs(payment, { state: 'succeeded' });
}

export function settledAs(payment: AcceptedPayment, result: Settlement): Posting {
  return { payment, traceparent, settlement: { result, settledAt: settledNow } };
}

export function pendingOf(payment: AcceptedPayment): Posting {
  return { payment, traceparent };
}

export function count(outcomes: readonly PostOutcome[], wanted: PostOutcome['outcome']): number {
  return outcomes.filter(({ outcome }) => outcome === wanted).length;
}

/** A refund as a worker posts it. */
export const posting = (refund: AcceptedRefund) => ({ refund, traceparent, settledAt: settledNow });

/** A book transfer of 100 that is in the ledger. */
export async function aTransfer({ ledger }: RefundsUnderTest, amount = 100n) {
  const payment = aPayment({ amount });
  await ledger.post([bookTransferOf(payment)]);
  return payment;
}
