import type { PaymentKind } from './identity.ts';
import type { Money } from './money.ts';
import type { Accepted, TransactionProgress, ProviderCharge } from './transaction.ts';

/** What the partner asked for; absent fields were absent in the request. */
export type PaymentDetails = {
  readonly money: Money;
  /**
   * What the provider charges, `pm_…`; absent for a book transfer, which no provider is asked
   * about.
   */
  readonly paymentMethod?: string;
  readonly reference?: string;
  readonly description?: string;
  readonly metadata?: Readonly<Record<string, string>>;
};

/** A payment as the gateway accepted it. */
export type AcceptedPayment = Accepted & {
  readonly kind: PaymentKind;
  readonly details: PaymentDetails;
};

/** A payment as the ledger holds it. */
export type Payment = AcceptedPayment &
  TransactionProgress & {
    readonly amountRefunded: bigint;
    /** Cards only, from the moment an intent is stored. */
    readonly provider?: ProviderCharge;
  };
