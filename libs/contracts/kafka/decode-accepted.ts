import {
  deriveTxnId,
  type AcceptedPayment,
  type Fingerprint,
  type IdempotencyKey,
  type JsonObject,
  type JsonValue,
  type PartnerId,
  type TransactionKind,
  type TxnId,
} from '@triplock/payments';
import { Type, type Static, type TObject } from 'typebox';
import { Compile } from 'typebox/compile';
import { paymentFields, txnIdSchema } from '../http/payment-schemas.ts';
import { refundFields } from '../http/refund-schemas.ts';
import { parseStrictJson } from '../http/strict-json.ts';
import { detailsOf } from '../http/validate-payment-request.ts';
import { refundDetailsOf } from '../http/validate-refund-request.ts';
import { traceparentOf } from '../traceparent.ts';
import { acceptedSchema, type DecodedRecord, type RecordRefusal } from './accepted-record.ts';

/** A record as it came from the topic; kafkajs gives a header sent twice as an array. */
export type UndecodedRecord = {
  key: Buffer | null;
  value: Buffer | null;
  headers: Readonly<Record<string, Buffer | string | readonly (Buffer | string)[] | undefined>>;
};

// The gateway's own records stay below 64 KiB plus escapes; four times that is nobody's payment.
const valueBytesMax = 256 * 1024;

const commonFields = {
  schema: Type.Literal(acceptedSchema),
  txn_id: txnIdSchema,
  partner_id: Type.String({ pattern: '^[!-~]{1,255}$' }),
  idempotency_key: Type.String({ pattern: '^[ -~]{1,255}$' }),
  fingerprint: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  response_version: Type.Integer({ minimum: 1 }),
  accepted_at: Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' }),
};

// One schema per kind, chosen by `kind`: a union would try one after the other on every record.
const paymentRecord = Compile(
  Type.Object(
    { ...commonFields, kind: Type.Literal('payment'), ...paymentFields },
    { additionalProperties: false },
  ),
);
const refundRecord = Compile(
  Type.Object(
    { ...commonFields, kind: Type.Literal('refund'), payment_id: txnIdSchema, ...refundFields },
    { additionalProperties: false },
  ),
);

/**
 * Reads a record of the accepted topic. Total: whatever the bytes are, the answer is a payment, a
 * refund, or the reason why the record can never be posted.
 *
 * An id is believed only when it follows from the record's own kind, partner and key, so nobody who
 * can write to the topic can occupy another transaction's id by accident.
 */
export function decodeAccepted(received: UndecodedRecord): DecodedRecord {
  const { value } = received;
  if (value === null) return refused('null_value', 'the record has no value');
  if (value.length > valueBytesMax) {
    return refused('too_large', `${value.length} bytes, at most ${valueBytesMax} are read`);
  }
  const json = parseStrictJson(value);
  if (json.outcome === 'refused') return refused('not_json', `${json.pointer}: ${json.detail}`);
  const { schema, kind } = labelsOf(json.value);
  if (schema !== acceptedSchema) {
    const version = typeof schema === 'number' ? schema : 'none';
    return refused('unknown_schema', `schema ${version} is not known here`);
  }
  if (kind === 'payment') return decodePayment(json.value, received);
  if (kind === 'refund') return decodeRefund(json.value, received);
  return refused('invalid_record', '/kind is neither payment nor refund');
}

function decodePayment(json: JsonValue, received: UndecodedRecord): DecodedRecord {
  if (!paymentRecord.Check(json)) return invalid(paymentRecord.Errors(json));
  const payment = { ...commonOf(json), details: detailsOf(json) };
  const refusal = checkIdentity(received, {
    kind: 'payment',
    recordKey: payment.txnId,
    of: payment,
  });
  if (refusal !== undefined) return refusal;
  return { outcome: 'payment', payment, traceparent: traceOf(received, payment.txnId) };
}

function decodeRefund(json: JsonValue, received: UndecodedRecord): DecodedRecord {
  if (!refundRecord.Check(json)) return invalid(refundRecord.Errors(json));
  const paymentId = json.payment_id as TxnId;
  const refund = { ...commonOf(json), paymentId, details: refundDetailsOf(json) };
  const refusal = checkIdentity(received, { kind: 'refund', recordKey: paymentId, of: refund });
  if (refusal !== undefined) return refusal;
  return { outcome: 'refund', refund, traceparent: traceOf(received, refund.txnId) };
}

type Common = Omit<AcceptedPayment, 'details'>;

function commonOf(fields: Static<TObject<typeof commonFields>>): Common {
  return {
    txnId: fields.txn_id as TxnId,
    partnerId: fields.partner_id as PartnerId,
    key: fields.idempotency_key as IdempotencyKey,
    fingerprint: fields.fingerprint as Fingerprint,
    responseVersion: fields.response_version,
    acceptedAt: new Date(fields.accepted_at),
  };
}

function checkIdentity(
  received: UndecodedRecord,
  { kind, recordKey, of }: { kind: TransactionKind; recordKey: TxnId; of: Common },
): DecodedRecord | undefined {
  if (Number.isNaN(of.acceptedAt.getTime())) {
    return refused('invalid_record', '/accepted_at is no date');
  }
  if (of.txnId !== deriveTxnId(kind, of.partnerId, of.key)) {
    return refused('forged_id', 'txn_id does not follow from kind, partner_id and key');
  }
  if (received.key?.toString('utf8') !== recordKey) {
    return refused('forged_id', "the record's key is not the id of its payment");
  }
  if (headerOf(received, 'partner_id') !== of.partnerId) {
    return refused('partner_mismatch', 'the header partner_id names another partner');
  }
  return undefined;
}

function labelsOf(json: JsonValue): { schema?: JsonValue; kind?: JsonValue } {
  return (json as JsonObject | null) ?? {};
}

function invalid([error]: { instancePath: string; message: string }[]): DecodedRecord {
  const { instancePath, message } = error ?? { instancePath: '', message: 'is not as expected' };
  return refused('invalid_record', `${instancePath || '/'} ${message}`);
}

function traceOf(received: UndecodedRecord, txnId: TxnId): string {
  return traceparentOf(headerOf(received, 'traceparent'), txnId);
}

/** A header sent twice is as good as none: nobody knows which one counts. */
function headerOf(received: UndecodedRecord, name: string): string | undefined {
  const header = received.headers[name];
  return typeof header === 'string' || Buffer.isBuffer(header) ? header.toString() : undefined;
}

function refused(reason: RecordRefusal['reason'], detail: string): DecodedRecord {
  return { outcome: 'refused', reason, detail };
}
