import {
  deriveTxnId,
  followUpKinds,
  paymentKinds,
  transactionKinds,
  traceparentOf,
  type AcceptedPayment,
  type AcceptedFollowUp,
  type Fingerprint,
  type FollowUpKind,
  type IdempotencyKey,
  type JsonObject,
  type JsonValue,
  type PartnerId,
  type PaymentKind,
  type TransactionKind,
  type TxnId,
} from '@triplock/payments';
import { txnIdSchema } from '../http/fields.ts';
import { parseStrictJson } from '../http/strict-json.ts';
import { followUpAsSent, followUpDetailsOf, type followUpFields } from '../kinds/follow-up.ts';
import { transactionContracts } from '../kinds.ts';
import { asSent, detailsOf, type paymentFields } from '../kinds/payment.ts';
import { Compile, Type, type Static, type TObject, type TProperties } from '../schema.ts';

/** Version of the record's form; another one is dead-lettered, not guessed at. */
const acceptedSchema = 1;

/** A Kafka record as bytes and headers. */
export type EncodedRecord = {
  key: string;
  value: Buffer;
  headers: { traceparent: string; partner_id: string };
};

/** Why a record can never be posted. */
export type RecordRefusal = {
  reason:
    | 'null_value'
    | 'too_large'
    | 'not_json'
    | 'unknown_schema'
    | 'invalid_record'
    | 'forged_id'
    | 'partner_mismatch';
  detail: string;
};

/** What reading a record gives. */
export type DecodedRecord =
  | { outcome: 'payment'; payment: AcceptedPayment; traceparent: string }
  | { outcome: 'follow-up'; followUp: AcceptedFollowUp; traceparent: string }
  | ({ outcome: 'refused' } & RecordRefusal);

type HeaderValue = Buffer | string | null;

/** A record as it came from the topic; a header sent twice is a list, and a value may be null. */
export type UndecodedRecord = {
  key: Buffer | null;
  value: Buffer | null;
  headers: Readonly<Record<string, HeaderValue | readonly HeaderValue[] | undefined>>;
};

/**
 * Headers added to a dead letter. Key, value bytes and every original header are kept as they
 * were; an original header of the same name is kept under `original.<name>`. Where the library that
 * writes the dead letter cannot write null, `dead-letter.null.<name>` stands for the null values of
 * the header `<name>`: it holds their places among the values of that name, from 0, with commas.
 */
export type DeadLetterHeaders = {
  'dead-letter.reason': string;
  'dead-letter.detail': string;
  'dead-letter.topic': string;
  'dead-letter.partition': string;
  'dead-letter.offset': string;
  /** RFC 3339, UTC. */
  'dead-letter.at': string;
};

/**
 * The record of an accepted payment, keyed by its id, so that one payment stays in one partition.
 */
export function encodePaymentAccepted(
  payment: AcceptedPayment,
  traceparent: string,
): EncodedRecord {
  const fields = { ...fieldsOf(payment.kind, payment), ...asSent(payment.details) };
  return encode(payment.txnId, fields, headersOf(payment, traceparent));
}

/**
 * The record of an accepted refund, capture or cancellation, keyed by its payment's id, so that it
 * stays behind its payment.
 */
export function encodeFollowUpAccepted(
  followUp: AcceptedFollowUp,
  traceparent: string,
): EncodedRecord {
  const { paymentId, details } = followUp;
  const fields = {
    ...fieldsOf(followUp.kind, followUp),
    payment_id: paymentId,
    ...followUpAsSent(details),
  };
  return encode(paymentId, fields, headersOf(followUp, traceparent));
}

function fieldsOf(kind: TransactionKind, accepted: AcceptedPayment | AcceptedFollowUp) {
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

function headersOf(accepted: AcceptedPayment | AcceptedFollowUp, traceparent: string) {
  return { traceparent, partner_id: accepted.partnerId };
}

function encode(key: TxnId, fields: JsonObject, headers: EncodedRecord['headers']): EncodedRecord {
  return { key, value: Buffer.from(JSON.stringify(fields)), headers };
}

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
const readers = new Map<unknown, (json: JsonValue, received: UndecodedRecord) => DecodedRecord>([
  ...paymentKinds.map((kind) => [kind, paymentReader(kind)] as const),
  ...followUpKinds.map((kind) => [kind, followUpReader(kind)] as const),
]);

/**
 * Reads a record of the accepted topic. Total: whatever the bytes are, the answer is a payment,
 * what follows one, or the reason why the record can never be posted.
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
  const read = readers.get(kind);
  if (read !== undefined) return read(json.value, received);
  return refused('invalid_record', `/kind is none of ${transactionKinds.join(', ')}`);
}

function paymentReader(kind: PaymentKind) {
  // Whatever fields a kind has of a payment's, what is made of them is made alike.
  const fields = transactionContracts[kind].fields as typeof paymentFields;
  const record = recordOf({ kind: Type.Literal(kind), ...fields });
  return (json: JsonValue, received: UndecodedRecord): DecodedRecord => {
    if (!record.Check(json)) return invalid(record.Errors(json));
    const payment = { kind, ...commonOf(json), details: detailsOf(json) };
    const refusal = checkIdentity(received, { kind, recordKey: payment.txnId, of: payment });
    if (refusal !== undefined) return refusal;
    return { outcome: 'payment', payment, traceparent: traceOf(received, payment.txnId) };
  };
}

function followUpReader(kind: FollowUpKind) {
  const fields = transactionContracts[kind].fields as typeof followUpFields;
  const record = recordOf({ kind: Type.Literal(kind), payment_id: txnIdSchema, ...fields });
  return (json: JsonValue, received: UndecodedRecord): DecodedRecord => {
    if (!record.Check(json)) return invalid(record.Errors(json));
    const paymentId = json.payment_id as TxnId;
    const followUp = { kind, ...commonOf(json), paymentId, details: followUpDetailsOf(json) };
    const refusal = checkIdentity(received, { kind, recordKey: paymentId, of: followUp });
    if (refusal !== undefined) return refusal;
    return { outcome: 'follow-up', followUp, traceparent: traceOf(received, followUp.txnId) };
  };
}

function recordOf<Fields extends TProperties>(fields: Fields) {
  return Compile(Type.Object({ ...commonFields, ...fields }, { additionalProperties: false }));
}

type Common = Omit<AcceptedPayment, 'kind' | 'details'>;

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
