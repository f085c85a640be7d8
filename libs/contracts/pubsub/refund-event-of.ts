import {
  deriveEventId,
  deriveKeyConflictId,
  type AcceptedRefund,
  type Refund,
  type TxnId,
} from '@triplock/payments';
import { refundAsSent, renderRefund } from '../http/render-refund.ts';
import { paymentEventSchema, type PaymentEvent } from './payment-event.ts';

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
  if (refund.settledAt === null) throw new Error(`refund ${refund.txnId} is not settled`);
  const type = refund.state === 'failed' ? 'refund.failed' : 'refund.succeeded';
  return {
    schema: paymentEventSchema,
    event_id: deriveEventId(refund.txnId, type),
    partner_id: refund.partnerId,
    txn_id: refund.txnId,
    payment_id: orderedBy,
    type,
    timestamp: refund.settledAt.toISOString(),
    sequence,
    data: renderRefund(refund),
  };
}

/** The event that tells a partner that its refund's key was used for another refund as well. */
export function refundKeyConflictEventOf(refused: AcceptedRefund): PaymentEvent {
  const { txnId, partnerId, paymentId, fingerprint, details } = refused;
  return {
    schema: paymentEventSchema,
    event_id: deriveKeyConflictId(txnId, fingerprint),
    partner_id: partnerId,
    txn_id: txnId,
    payment_id: paymentId,
    type: 'payment.key_conflict',
    timestamp: refused.acceptedAt.toISOString(),
    data: {
      id: txnId,
      object: 'refund',
      payment: paymentId,
      fingerprint,
      ...refundAsSent(details),
    },
  };
}
