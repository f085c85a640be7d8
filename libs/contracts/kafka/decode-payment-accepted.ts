import {
  deriveTxnId,
  type AcceptedPayment,
  type Fingerprint,
  type IdempotencyKey,
  type JsonValue,
  type PartnerId,
  type TxnId,
} from '@triplock/payments';
import { Type, type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { paymentFields, txnIdSchema } from '../http/payment-schemas.ts';
import { parseStrictJson } from '../http/strict-json.ts';
import { detailsOf } from '../http/validate-payment-request.ts';
import { traceparentOf } from '../traceparent.ts';
import {
  paymentAcceptedSchema,
  type DecodedRecord,
  type RecordRefusal,
} from './payment-accepted.ts';

/** A record as it came from the topic; kafkajs gives a header sent twice as an array. */
export type UndecodedRecord = {
  key: Buffer | null;
  value: Buffer | null;
  headers: Readonly<Record<string, Buffer | string | readonly (Buffer | string)[] | undefined>>;
};

// The gateway's own records stay below 64 KiB plus escapes; four times that is nobody's payment.
const valueBytesMax = 256 * 1024;

const recordSchema = Type.Object(
  {
    schema: Type.Literal(paymentAcceptedSchema),
    kind: Type.Literal('payment'),
    txn_id: txnIdSchema,
    partner_id: Type.String({ pattern: '^[!-~]{1,255}$' }),
    idempotency_key: Type.String({ pattern: '^[ -~]{1,255}$' }),
    fingerprint: Type.String({ pattern: '^[0-9a-f]{64}$' }),
    response_version: Type.Integer({ minimum: 1 }),
    accepted_at: Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' }),
    ...paymentFields,
  },
  { additionalProperties: false },
);
type RecordFields = Static<typeof recordSchema>;
const record = Compile(recordSchema);

/**
 * Reads a record of the accepted topic. Total: whatever the bytes are, the answer is a payment or
 * the reason why the record can never be posted.
 *
 * An id is believed only when it follows from the record's own partner and key, so nobody who can
 * write to the topic can occupy another payment's id by accident.
 */
export function decodePaymentAccepted(received: UndecodedRecord): DecodedRecord {
  const { value } = received;
  if (value === null) return refused('null_value', 'the record has no value');
  if (value.length > valueBytesMax) {
    return refused('too_large', `${value.length} bytes, at most ${valueBytesMax} are read`);
  }
  const json = parseStrictJson(value);
  if (json.outcome === 'refused') return refused('not_json', `${json.pointer}: ${json.detail}`);
  const version = schemaOf(json.value);
  if (version !== paymentAcceptedSchema) {
    return refused('unknown_schema', `schema ${version} is not known here`);
  }
  if (!record.Check(json.value)) return refused('invalid_record', firstError(json.value));
  return checkIdentity(json.value, received);
}

function checkIdentity(fields: RecordFields, received: UndecodedRecord): DecodedRecord {
  const payment = paymentOf(fields);
  const acceptedAtMs = payment.acceptedAt.getTime();
  if (Number.isNaN(acceptedAtMs)) return refused('invalid_record', '/accepted_at is no date');
  if (payment.txnId !== deriveTxnId('payment', payment.partnerId, payment.key)) {
    return refused('forged_id', 'txn_id does not follow from partner_id and key');
  }
  if (received.key?.toString('utf8') !== payment.txnId) {
    return refused('forged_id', "the record's key is not its txn_id");
  }
  if (headerOf(received, 'partner_id') !== payment.partnerId) {
    return refused('partner_mismatch', 'the header partner_id names another partner');
  }
  const traceparent = traceparentOf(headerOf(received, 'traceparent'), payment.txnId);
  return { outcome: 'payment', payment, traceparent };
}

function paymentOf(fields: RecordFields): AcceptedPayment {
  return {
    txnId: fields.txn_id as TxnId,
    partnerId: fields.partner_id as PartnerId,
    key: fields.idempotency_key as IdempotencyKey,
    fingerprint: fields.fingerprint as Fingerprint,
    responseVersion: fields.response_version,
    acceptedAt: new Date(fields.accepted_at),
    details: detailsOf(fields),
  };
}

function schemaOf(json: JsonValue): number | 'none' {
  const version = (json as { schema?: JsonValue } | null)?.schema;
  return typeof version === 'number' ? version : 'none';
}

function firstError(json: JsonValue): string {
  const [error] = record.Errors(json);
  return `${error?.instancePath || '/'} ${error?.message ?? 'is not as expected'}`;
}

/** A header sent twice is as good as none: nobody knows which one counts. */
function headerOf(received: UndecodedRecord, name: string): string | undefined {
  const header = received.headers[name];
  return typeof header === 'string' || Buffer.isBuffer(header) ? header.toString() : undefined;
}

function refused(reason: RecordRefusal['reason'], detail: string): DecodedRecord {
  return { outcome: 'refused', reason, detail };
}
