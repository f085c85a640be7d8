import { bucketCount } from '@triplock/contracts';
import { bookTransfer, bucketOf, type Payment } from '@triplock/payments';
import type { Posting } from '../ledger.ts';
import { settlementEvent } from './event-row.ts';

/** A posting in the form that `post.sql` reads; absent values are left out and become NULL. */
export function postingRow(posting: Posting): object {
  const { payment, settlement } = posting;
  const { money, reference, description, metadata } = payment.details;
  return {
    txn_id: payment.txnId,
    partner_id: payment.partnerId,
    idempotency_key: payment.key,
    fingerprint: `\\x${payment.fingerprint}`,
    response_version: payment.responseVersion,
    amount: String(money.amount),
    currency: money.currency,
    reference,
    description,
    metadata,
    created_at: payment.acceptedAt,
    ...(settlement === undefined ? { state: 'pending' } : settledRow(posting, settlement)),
  };
}

function settledRow(posting: Posting, settlement: NonNullable<Posting['settlement']>): object {
  const { result, settledAt } = settlement;
  const payment = settledPayment(posting, settlement);
  const event = settlementEvent({ payment, sequence: 1, traceparent: posting.traceparent });
  const entry =
    result.state === 'succeeded'
      ? bookTransfer(payment.partnerId, payment.details.money)
      : undefined;
  return {
    state: result.state,
    failure_code: payment.failure?.code,
    failure_message: payment.failure?.message,
    settled_at: settledAt,
    debit_account: entry?.debit,
    credit_account: entry?.credit,
    event_id: event.eventId,
    event_type: event.eventType,
    bucket: bucketOf(payment.txnId, bucketCount),
    payload: event.payload,
    traceparent: event.traceparent,
  };
}

/** The payment as it will stand once the statement committed: the event shows it so. */
function settledPayment(
  posting: Posting,
  { result, settledAt }: NonNullable<Posting['settlement']>,
): Payment {
  return {
    ...posting.payment,
    state: result.state,
    version: 1,
    amountRefunded: 0n,
    settledAt,
    ...(result.state === 'failed' ? { failure: result.failure } : {}),
  };
}
