import { bucketCount, encodePaymentEvent, type PaymentEvent } from '@triplock/contracts';
import { bucketOf, type AcceptedPayment, type Payment } from '@triplock/payments';
import type { Posting } from '../ledger.ts';
import { paymentMovement, settledPayment, settlementEvent } from '../settlement.ts';

/**
 * A posting as the JSON object that `post.sql` reads; absent fields become NULL there. The event's
 * text goes in as it is and not as a string in a string: escaping its quotes would be a third of
 * the work of posting.
 */
export function postingJson(posting: Posting): string {
  const { payment, settlement, traceparent } = posting;
  if (settlement === undefined) {
    return JSON.stringify({ ...requestRow(payment), state: 'pending', traceparent });
  }
  const settled = settledPayment(payment, settlement);
  const event = settlementEvent(settled, 1);
  const row = { ...requestRow(payment), ...settlementRow(settled, event), traceparent };
  return `${JSON.stringify(row).slice(0, -1)},"payload":${encodePaymentEvent(event).payload}}`;
}

function requestRow(payment: AcceptedPayment): object {
  const { money, paymentMethod, reference, description, metadata } = payment.details;
  return {
    txn_id: payment.txnId,
    partner_id: payment.partnerId,
    idempotency_key: payment.key,
    fingerprint: `\\x${payment.fingerprint}`,
    response_version: payment.responseVersion,
    amount: String(money.amount),
    currency: money.currency,
    payment_method: paymentMethod,
    reference,
    description,
    metadata,
    // As text already: JSON.stringify takes twice as long to ask a Date for it.
    created_at: payment.acceptedAt.toISOString(),
  };
}

function settlementRow(payment: Payment, event: PaymentEvent): object {
  const entry = paymentMovement(payment);
  return {
    state: payment.state,
    failure_code: payment.failure?.code,
    failure_message: payment.failure?.message,
    settled_at: payment.settledAt?.toISOString(),
    debit_account: entry?.debit,
    credit_account: entry?.credit,
    event_id: event.event_id,
    event_type: event.type,
    bucket: bucketOf(payment.txnId, bucketCount),
  };
}
