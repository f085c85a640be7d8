import type { Posting } from '@triplock/ledger';
import type { AcceptedPayment } from '@triplock/payments';

/** A posting that brings its own settlement, because no provider has to be asked. */
export type BookTransfer = Posting & { settlement: NonNullable<Posting['settlement']> };

/** A payment as it was accepted, and when it is settled if no provider has to be asked. */
export type Accepted = { payment: AcceptedPayment; traceparent: string; settledAt: Date };

/** Posts a card payment as pending, to be charged, and settles any other by one statement. */
export function postingOf(accepted: Accepted): Posting {
  const { payment, traceparent } = accepted;
  if (payment.details.paymentMethod !== undefined) return { payment, traceparent };
  return bookTransferOf(accepted);
}

/** Posts a payment and settles it as succeeded, as of `settledAt`, by one statement. */
export function bookTransferOf(accepted: Accepted): BookTransfer {
  const { payment, traceparent, settledAt } = accepted;
  return { payment, traceparent, settlement: { result: { state: 'succeeded' }, settledAt } };
}

/** Whether a posting settles itself. */
export function isBookTransfer(posting: Posting): posting is BookTransfer {
  return posting.settlement !== undefined;
}
