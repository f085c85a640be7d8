import type { AcceptedPayment } from '@triplock/payments';
import { asSent } from '../http/accepted-response.ts';
import { paymentAcceptedSchema, type EncodedRecord } from './payment-accepted.ts';

/** The record of an accepted payment, keyed by its id, so that one payment stays in one partition. */
export function encodePaymentAccepted(
  payment: AcceptedPayment,
  traceparent: string,
): EncodedRecord {
  const value = {
    schema: paymentAcceptedSchema,
    kind: 'payment',
    txn_id: payment.txnId,
    partner_id: payment.partnerId,
    idempotency_key: payment.key,
    fingerprint: payment.fingerprint,
    response_version: payment.responseVersion,
    accepted_at: payment.acceptedAt.toISOString(),
    ...asSent(payment.details),
  };
  return {
    key: payment.txnId,
    value: Buffer.from(JSON.stringify(value)),
    headers: { traceparent, partner_id: payment.partnerId },
  };
}
