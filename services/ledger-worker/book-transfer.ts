import type { Posting } from '@triplock/ledger';
import type { AcceptedPayment } from '@triplock/payments';

/** A posting that brings its own settlement, because no provider has to be asked. */
export type BookTransfer = Posting & { settlement: NonNullable<Posting['settlement']> };

/** Posts a payment and settles it as succeeded, as of `settledAt`, by one statement. */
export function bookTransferOf(accepted: {
  payment: AcceptedPayment;
  traceparent: string;
  settledAt: Date;
}): BookTransfer {
  const { payment, traceparent, settledAt } = accepted;
  return { payment, traceparent, settlement: { result: { state: 'succeeded' }, settledAt } };
}
