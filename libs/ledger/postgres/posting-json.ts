import { bucketCount } from '@triplock/contracts';
import { bucketOf, paymentEntry, type AcceptedPayment, type Payment } from '@triplock/payments';
import type { Posting } from '../ledger.ts';
import { settlementEvent, type EventRow } from './event-row.ts';

/**
 * A posting as the JSON object that `post.sql` reads; absent fields become NULL there. The event's
 * text goes in as it is and not as a string in a string: escaping its quotes would be a third of
 * the work of posting.
 */
export function postingJson(posting: Posting): string {
  const { payment, settlement } = posting;
  if (settlement === undefined) {
    const { traceparent } = posting;
    return JSON.stringify({ ...requestRow(payment), state: 'pending', traceparent });
  }
  const settled = settledPayment(payment, settlement);
  const event = settlementEvent({
    payment: settled,
    sequence: 1,
    traceparent: posting.traceparent,
  });
  const row = { ...requestRow(payment), ...settlementRow(settled, event) };
  return `${JSON.stringify(row).slice(0, -1)},"payload":${event.payload}}`;
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

function settlementRow(payment: Payment, event: EventRow): object {
  const { partnerId, details } = payment;
  const entry =
    payment.state === 'succeeded' ? paymentEntry({ partnerId, money: details.money }) : undefined;
  return {
    state: payment.state,
    failure_code: payment.failure?.code,
    failure_message: payment.failure?.message,
    settled_at: payment.settledAt?.toISOString(),
    debit_account: entry?.debit,
    credit_account: entry?.credit,
    event_id: event.eventId,
    event_type: event.eventType,
    bucket: bucketOf(payment.txnId, bucketCount),
    traceparent: event.traceparent,
  };
}

/** The payment as it will stand once the statement committed: the event shows it so. */
function settledPayment(
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
