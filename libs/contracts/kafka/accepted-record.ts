import type { AcceptedPayment, AcceptedRefund } from '@triplock/payments';

/** Version of the record's form; another one is dead-lettered, not guessed at. */
export const acceptedSchema = 1;

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
  | { outcome: 'refund'; refund: AcceptedRefund; traceparent: string }
  | ({ outcome: 'refused' } & RecordRefusal);
