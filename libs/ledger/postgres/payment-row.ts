import type {
  Currency,
  Fingerprint,
  IdempotencyKey,
  PartnerId,
  Payment,
  TransactionState,
  TxnId,
} from '@triplock/payments';

/** A payment as `find.sql` and `settle.sql` give it back. */
export type PaymentRow = {
  txn_id: string;
  partner_id: string;
  idempotency_key: string;
  fingerprint: string;
  response_version: number;
  amount: bigint;
  currency: string;
  reference: string | null;
  description: string | null;
  metadata: Record<string, string> | null;
  created_at: Date;
  state: TransactionState;
  version: number;
  events: number;
  failure_code: string | null;
  failure_message: string | null;
  settled_at: Date | null;
  amount_refunded: bigint;
};

/** The payment that a row holds; fields that the request left out are left out again. */
export function paymentOf(row: PaymentRow): Payment {
  return {
    txnId: row.txn_id as TxnId,
    partnerId: row.partner_id as PartnerId,
    key: row.idempotency_key as IdempotencyKey,
    fingerprint: row.fingerprint as Fingerprint,
    responseVersion: row.response_version,
    acceptedAt: row.created_at,
    details: {
      money: { amount: row.amount, currency: row.currency as Currency },
      ...(row.reference === null ? {} : { reference: row.reference }),
      ...(row.description === null ? {} : { description: row.description }),
      ...(row.metadata === null ? {} : { metadata: row.metadata }),
    },
    state: row.state,
    version: row.version,
    amountRefunded: row.amount_refunded,
    settledAt: row.settled_at,
    ...(row.failure_code === null
      ? {}
      : { failure: { code: row.failure_code, message: row.failure_message ?? '' } }),
  };
}
