import { paymentEventOf, type PaymentEvent } from '@triplock/contracts';
import type { Payment } from '@triplock/payments';

/** The event of a payment that is final, at its given place in the payment's order. */
export function settlementEvent(payment: Payment, sequence: number): PaymentEvent {
  const type = payment.state === 'failed' ? 'payment.failed' : 'payment.succeeded';
  return paymentEventOf(payment, type, sequence);
}
