import { paymentEventOf, type PaymentEvent } from '@triplock/contracts';
import {
  paymentEntry,
  refundEntry,
  type AcceptedPayment,
  type Entry,
  type Payment,
  type Refund,
} from '@triplock/payments';
import type { Posting } from './ledger.ts';

/** The event of a payment that is final, at its given place in the payment's order. */
export function settlementEvent(payment: Payment, sequence: number): PaymentEvent {
  const type = payment.state === 'failed' ? 'payment.failed' : 'payment.succeeded';
  return paymentEventOf(payment, type, sequence);
}

/** A payment that is posted and settled in one step, as it will stand: its event shows it so. */
export function settledPayment(
  payment: AcceptedPayment,
  { result, settledAt }: NonNullable<Posting['settlement']>,
): Payment {
  return {
    ...payment,
    state: result.state,
    version: 1,
    amountRefunded: 0n,
    settledAt,
    ...(result.state === 'failed' ? { failure: result.failure } : {}),
  };
}

/** What a payment that is final moves; nothing when it failed. */
export function paymentMovement(payment: Payment): Entry | undefined {
  const { partnerId, state, details, provider } = payment;
  if (state !== 'succeeded') return undefined;
  return paymentEntry({ partnerId, money: details.money, provider: provider?.name });
}

/** What a refund that is final moves back; nothing when it failed. */
export function refundMovement(refund: Refund): Entry | undefined {
  const { partnerId, state, money, provider } = refund;
  if (state !== 'succeeded' || money === undefined) return undefined;
  return refundEntry({ partnerId, money, provider: provider?.name });
}
