import type {
  Currency,
  Fingerprint,
  IdempotencyKey,
  PartnerId,
  Refund,
  TransactionState,
  TxnId,
} from '@triplock/payments';
import { failureOf, providerOf, type ProviderColumns } from './payment-row.ts';

/** A refund as `find-refund.sql` and `list-refunds.sql` give it back. */
export type RefundRow = ProviderColumns & {
  txn_id: string;
  partner_id: string;
  idempotency_key: string;
  fingerprint: string;
  response_version: number;
  payment_id: string;
  requested_amount: bigint | null;
  reason: string | null;
  amount: bigint | null;
  currency: string | null;
  created_at: Date;
  state: TransactionState;
  version: number;
  failure_code: string | null;
  failure_message: string | null;
  settled_at: Date | null;
  provider_refund_id: string | null;
};

/** The refund that a row holds; fields that the request left out are left out again. */
export function refundOf(row: RefundRow): Refund {
  const { amount, currency, provider_refund_id: refundId } = row;
  const { provider } = providerOf(row);
  return {
    txnId: row.txn_id as TxnId,
    partnerId: row.partner_id as PartnerId,
    key: row.idempotency_key as IdempotencyKey,
    fingerprint: row.fingerprint as Fingerprint,
    responseVersion: row.response_version,
    acceptedAt: row.created_at,
    paymentId: row.payment_id as TxnId,
    details: {
      ...(row.requested_amount === null ? {} : { amount: row.requested_amount }),
      ...(row.reason === null ? {} : { reason: row.reason }),
    },
    state: row.state,
    version: row.version,
    ...(amount === null || currency === null
      ? {}
      : { money: { amount, currency: currency as Currency } }),
    settledAt: row.settled_at,
    ...failureOf(row),
    ...(provider === undefined
      ? {}
      : { provider: { ...provider, ...(refundId === null ? {} : { refundId }) } }),
  };
}
