import {
  deriveEventId,
  deriveKeyConflictId,
  type AcceptedPayment,
  type AcceptedRefund,
  type EventType,
  type Payment,
  type PaymentKind,
  type Refund,
  type TxnId,
} from '@triplock/payments';
import { renderPayment } from '../http/payment.ts';
import { refundAsSent, renderRefund } from '../http/refund.ts';
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
  type: `${PaymentKind}.${'succeeded' | 'failed'}`,
  sequence: number,
): PaymentEvent {
  return settled(payment, {
    type,
    orderedBy: payment.txnId,
    sequence,
    data: renderPayment(payment),
  });
}

/**
 * The event that tells a partner that its key was used for another payment as well, which was
 * refused. It happened when the loser was accepted, so a redelivery makes the same event again.
 */
export function keyConflictEventOf(refused: AcceptedPayment): PaymentEvent {
  const { kind, txnId, fingerprint, details } = refused;
  const { amount, currency } = details.money;
  const data = { id: txnId, object: kind, fingerprint, amount: Number(amount), currency };
  return keyConflict(refused, { orderedBy: txnId, data });
}

/** A refund that is final, and its place among the events of what orders it. */
export type RefundToTell = {
  refund: Refund;
  /** Its payment, or the refund itself when the partner has no such payment. */
  orderedBy: TxnId;
  sequence: number;
};

/**
 * The event that says how a refund ended. A pure function of the refund, so that every copy is
 * byte-identical.
 *
 * @throws for a refund that is still pending: it has no event, which is a bug of the caller.
 */
export function refundEventOf({ refund, orderedBy, sequence }: RefundToTell): PaymentEvent {
  const type = refund.state === 'failed' ? 'refund.failed' : 'refund.succeeded';
  return settled(refund, { type, orderedBy, sequence, data: renderRefund(refund) });
}

/** The event that tells a partner that its refund's key was used for another refund as well. */
export function refundKeyConflictEventOf(refused: AcceptedRefund): PaymentEvent {
  const { txnId: id, paymentId: payment, fingerprint, details } = refused;
  const data = { id, object: 'refund', payment, fingerprint, ...refundAsSent(details) };
  return keyConflict(refused, { orderedBy: payment, data });
}

type Settled = {
  type: Exclude<EventType, 'payment.key_conflict'>;
  orderedBy: TxnId;
  sequence: number;
  data: PaymentEvent['data'];
};

function settled(transaction: Payment | Refund, end: Settled): PaymentEvent {
  const { txnId, partnerId, settledAt } = transaction;
  if (settledAt === null) throw new Error(`transaction ${txnId} is not settled`);
  return {
    schema: paymentEventSchema,
    event_id: deriveEventId(txnId, end.type),
    partner_id: partnerId,
    txn_id: txnId,
    payment_id: end.orderedBy,
    type: end.type,
    timestamp: settledAt.toISOString(),
    sequence: end.sequence,
    data: end.data,
  };
}

function keyConflict(
  { txnId, partnerId, fingerprint, acceptedAt }: AcceptedPayment | AcceptedRefund,
  { orderedBy, data }: { orderedBy: TxnId; data: PaymentEvent['data'] },
): PaymentEvent {
  return {
    schema: paymentEventSchema,
    event_id: deriveKeyConflictId(txnId, fingerprint),
    partner_id: partnerId,
    txn_id: txnId,
    payment_id: orderedBy,
    type: 'payment.key_conflict',
    timestamp: acceptedAt.toISOString(),
    data,
  };
}
