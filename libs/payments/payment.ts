import type { Fingerprint, IdempotencyKey, PartnerId, TxnId } from './identity.ts';
import type { Money } from './money.ts';
import type { Failure, TransactionState } from './transaction.ts';

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

/**
 * A payment as the gateway accepted it. Everything but `acceptedAt` is a function of the request.
 */
export type AcceptedPayment = {
  readonly txnId: TxnId;
  readonly partnerId: PartnerId;
  readonly key: IdempotencyKey;
  readonly fingerprint: Fingerprint;
  /** Which form the 202 body has, so that a deploy between answer and replay changes no byte. */
  readonly responseVersion: number;
  /** The gateway's clock at the first claim; shown as `created_at`. Milliseconds. */
  readonly acceptedAt: Date;
  readonly details: PaymentDetails;
};

/** The provider's side of a card payment. */
export type ProviderCharge = {
  readonly name: ProviderName;
  /** Stored before it is confirmed, so that a crash leaves no charge whose intent nobody knows. */
  readonly intentId: string;
  /** There once the charge succeeded. */
  readonly chargeId?: string;
};

/** Who may be asked to charge. */
export type ProviderName = 'stripe';

/** A payment as the ledger holds it. */
export type Payment = AcceptedPayment & {
  readonly state: TransactionState;
  /** Grows with every change of the row; a writer that saw an older one writes nothing. */
  readonly version: number;
  readonly amountRefunded: bigint;
  /** When it became final; null while pending. */
  readonly settledAt: Date | null;
  readonly failure?: Failure;
  /** Cards only, from the moment an intent is stored. */
  readonly provider?: ProviderCharge;
};
