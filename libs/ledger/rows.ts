import type {
  Currency,
  Fingerprint,
  IdempotencyKey,
  PartnerId,
  Payment,
  ProviderCharge,
  ProviderName,
  Refund,
  TransactionState,
  TxnId,
} from '@triplock/payments';

/** The charge that a row names; all null for a book transfer. */
export type ProviderColumns = {
  provider: ProviderName | null;
  provider_intent_id: string | null;
  provider_charge_id: string | null;
};

/** A payment as transactions.sql and settle.sql give it back. */
export type PaymentRow = ProviderColumns & {
  txn_id: string;
  partner_id: string;
  idempotency_key: string;
  fingerprint: string;
  response_version: number;
  amount: bigint;
  currency: string;
  payment_method: string | null;
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
      ...(row.payment_method === null ? {} : { paymentMethod: row.payment_method }),
      ...(row.reference === null ? {} : { reference: row.reference }),
      ...(row.description === null ? {} : { description: row.description }),
      ...(row.metadata === null ? {} : { metadata: row.metadata }),
    },
    state: row.state,
    version: row.version,
    amountRefunded: row.amount_refunded,
    settledAt: row.settled_at,
    ...failureOf(row),
    ...providerOf(row),
  };
}

/** A refund as transactions.sql gives it back. */
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

/** Why it failed, or nothing. */
function failureOf(row: {
  failure_code: string | null;
  failure_message: string | null;
}): Pick<Payment, 'failure'> {
  if (row.failure_code === null) return {};
  return { failure: { code: row.failure_code, message: row.failure_message ?? '' } };
}

/** The provider's side, or nothing as long as no intent is stored. */
function providerOf(row: ProviderColumns): { provider?: ProviderCharge } {
  const { provider: name, provider_intent_id: intentId, provider_charge_id: chargeId } = row;
  if (name === null || intentId === null) return {};
  return { provider: { name, intentId, ...(chargeId === null ? {} : { chargeId }) } };
}
