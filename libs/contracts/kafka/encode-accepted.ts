import type {
  AcceptedPayment,
  AcceptedRefund,
  JsonObject,
  TransactionKind,
  TxnId,
} from '@triplock/payments';
import { asSent } from '../http/accepted-response.ts';
import { refundAsSent } from '../http/render-refund.ts';
import { acceptedSchema, type EncodedRecord } from './accepted-record.ts';

/**
 * The record of an accepted payment, keyed by its id, so that one payment stays in one partition.
 */
export function encodePaymentAccepted(
  payment: AcceptedPayment,
  traceparent: string,
): EncodedRecord {
  const fields = { ...fieldsOf('payment', payment), ...asSent(payment.details) };
  return encode(payment.txnId, fields, headersOf(payment, traceparent));
}

/**
 * The record of an accepted refund, keyed by its payment's id, so that it stays behind its payment.
 */
export function encodeRefundAccepted(refund: AcceptedRefund, traceparent: string): EncodedRecord {
  const { paymentId, details } = refund;
  const fields = {
    ...fieldsOf('refund', refund),
    payment_id: paymentId,
    ...refundAsSent(details),
  };
  return encode(paymentId, fields, headersOf(refund, traceparent));
}

function fieldsOf(kind: TransactionKind, accepted: AcceptedPayment | AcceptedRefund) {
  return {
    schema: acceptedSchema,
    kind,
    txn_id: accepted.txnId,
    partner_id: accepted.partnerId,
    idempotency_key: accepted.key,
    fingerprint: accepted.fingerprint,
    response_version: accepted.responseVersion,
    accepted_at: accepted.acceptedAt.toISOString(),
  };
}

function headersOf(accepted: AcceptedPayment | AcceptedRefund, traceparent: string) {
  return { traceparent, partner_id: accepted.partnerId };
}

function encode(key: TxnId, fields: JsonObject, headers: EncodedRecord['headers']): EncodedRecord {
  return { key, value: Buffer.from(JSON.stringify(fields)), headers };
}
