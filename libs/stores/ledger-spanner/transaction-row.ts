import type { Payment, Refund } from '@triplock/payments';
import { paymentOf, refundOf, type ProviderColumns } from '@triplock/ledger';
import type { TransactionRow as PostgresRow } from '@triplock/ledger';

/** A row of `transactions`. Whole numbers are bigints, as Spanner has no smaller ones. */
export type TransactionRow = {
  [Column in keyof PostgresRow]: PostgresRow[Column] extends number ? bigint : PostgresRow[Column];
};

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
