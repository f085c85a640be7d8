import {
  deriveEventId,
  deriveKeyConflictId,
  type AcceptedPayment,
  type Payment,
} from '@triplock/payments';
import { renderPayment } from '../http/render-payment.ts';
import { paymentEventSchema, type PaymentEvent } from './payment-event.ts';

/**
 * The event that says how a payment ended. A pure function of the payment, so that every copy is
 * byte-identical.
 *
 * @throws for a payment that is still pending: it has no event, which is a bug of the
 * caller.
 */
export function paymentEventOf(
  payment: Payment,
  type: 'payment.succeeded' | 'payment.failed',
  sequence: number,
): PaymentEvent {
  if (payment.settledAt === null) throw new Error(`payment ${payment.txnId} is not settled`);
  return {
    schema: paymentEventSchema,
    event_id: deriveEventId(payment.txnId, type),
    partner_id: payment.partnerId,
    txn_id: payment.txnId,
    payment_id: payment.txnId,
    type,
    timestamp: payment.settledAt.toISOString(),
    sequence,
    data: renderPayment(payment),
  };
}

/**
 * The event that tells a partner that its key was used for another request as well, which was
 * refused. It happened when the loser was accepted, so a redelivery makes the same event again.
 */
export function keyConflictEventOf(refused: AcceptedPayment): PaymentEvent {
  const { txnId, partnerId, fingerprint, details } = refused;
  return {
    schema: paymentEventSchema,
    event_id: deriveKeyConflictId(txnId, fingerprint),
    partner_id: partnerId,
    txn_id: txnId,
    payment_id: txnId,
    type: 'payment.key_conflict',
    timestamp: refused.acceptedAt.toISOString(),
    data: {
      id: txnId,
      object: 'payment',
      fingerprint,
      amount: Number(details.money.amount),
      currency: details.money.currency,
    },
  };
}
