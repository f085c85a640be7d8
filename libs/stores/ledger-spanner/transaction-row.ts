import type { ProviderName, Payment, Refund, TransactionState } from '@triplock/payments';
import { paymentOf, type ProviderColumns } from '@triplock/ledger';
import { refundOf } from '@triplock/ledger';

/** A row of `transactions`. Whole numbers are bigints, as Spanner has no smaller ones. */
export type TransactionRow = {
  txn_id: string;
  kind: 'payment' | 'refund';
  partner_id: string;
  idempotency_key: string;
  fingerprint: string;
  response_version: bigint;
  payment_id: string | null;
  requested_amount: bigint | null;
  amount: bigint | null;
  currency: string | null;
  payment_method: string | null;
  reference: string | null;
  description: string | null;
  metadata: Record<string, string> | null;
  reason: string | null;
  created_at: Date;
  state: TransactionState;
  version: bigint;
  events: bigint;
  failure_code: string | null;
  failure_message: string | null;
  settled_at: Date | null;
  refund_reserved: bigint;
  amount_refunded: bigint;
  provider: ProviderName | null;
  provider_intent_id: string | null;
  provider_charge_id: string | null;
  provider_refund_id: string | null;
  due_at: Date | null;
  traceparent: string | null;
};

/** Its columns; a name that is missing or too much does not compile. */
const columns: Record<keyof TransactionRow, true> = {
  txn_id: true,
  kind: true,
  partner_id: true,
  idempotency_key: true,
  fingerprint: true,
  response_version: true,
  payment_id: true,
  requested_amount: true,
  amount: true,
  currency: true,
  payment_method: true,
  reference: true,
  description: true,
  metadata: true,
  reason: true,
  created_at: true,
  state: true,
  version: true,
  events: true,
  failure_code: true,
  failure_message: true,
  settled_at: true,
  refund_reserved: true,
  amount_refunded: true,
  provider: true,
  provider_intent_id: true,
  provider_charge_id: true,
  provider_refund_id: true,
  due_at: true,
  traceparent: true,
};

/** The columns of a row. */
export const transactionColumns = Object.keys(columns);

/** The payment that a row of kind `payment` holds; the table's checks give it an amount. */
export function paymentFrom(row: TransactionRow): Payment {
  return paymentOf({ ...row, ...small(row), amount: row.amount!, currency: row.currency! });
}

/** The refund that a row holds, with the charge of its payment where that is the same partner's. */
export function refundFrom(row: TransactionRow, payment: TransactionRow | undefined): Refund {
  return refundOf({ ...row, ...small(row), ...chargeOf(payment), payment_id: row.payment_id! });
}

/** The payment of a refund, unless the row found under its id is something else. */
export function paymentOfRefund(
  refund: { partner_id: string },
  found: TransactionRow | undefined,
): TransactionRow | undefined {
  const isTheirs = found?.kind === 'payment' && found.partner_id === refund.partner_id;
  return isTheirs ? found : undefined;
}

function small({ response_version, version, events }: TransactionRow) {
  return {
    response_version: Number(response_version),
    version: Number(version),
    events: Number(events),
  };
}

function chargeOf(payment: TransactionRow | undefined): ProviderColumns {
  return {
    provider: payment?.provider ?? null,
    provider_intent_id: payment?.provider_intent_id ?? null,
    provider_charge_id: payment?.provider_charge_id ?? null,
  };
}
