import type { Fingerprint, IdempotencyKey, PartnerId, PaymentKind, TxnId } from './identity.ts';
import type { Money, ProviderName } from './money.ts';

/**
 * What the gateway accepted, alike for payments and refunds. Everything but `acceptedAt` is a
 * function of the request.
 */
export type Accepted = {
  readonly txnId: TxnId;
  readonly partnerId: PartnerId;
  readonly key: IdempotencyKey;
  readonly fingerprint: Fingerprint;
  /** Which form the 202 body has, so that a deploy between answer and replay changes no byte. */
  readonly responseVersion: number;
  /** The gateway's clock at the first claim; shown as `created_at`. Milliseconds. */
  readonly acceptedAt: Date;
};

/** How far the ledger is with a payment or refund. */
export type TransactionProgress = {
  readonly state: TransactionState;
  /** Grows with every change of the row; a writer that saw an older one writes nothing. */
  readonly version: number;
  /** When it became final; null while pending. */
  readonly settledAt: Date | null;
  readonly failure?: Failure;
};

/** A transaction goes from `pending` to one of the final states, once. */
export type TransactionState = 'pending' | 'succeeded' | 'failed';

/** Why a transaction failed; `code` is stable, `message` is for people. */
export type Failure = { readonly code: string; readonly message: string };

/** How a transaction ended. */
export type Settlement = { state: 'succeeded' } | { state: 'failed'; failure: Failure };

/** Whether the state can still change. */
export function isFinal(state: TransactionState): state is 'succeeded' | 'failed' {
  return state !== 'pending';
}

/** The provider's side of a card payment. */
export type ProviderCharge = {
  readonly name: ProviderName;
  /** Stored before it is confirmed, so that a crash leaves no charge whose intent nobody knows. */
  readonly intentId: string;
  /** There once the charge succeeded. */
  readonly chargeId?: string;
};

/** A customer who has, or had, to act. */
export type AwaitedCustomer = {
  /** When the time for it is over. */
  readonly expiresAt: Date;
  /** What to do and where, sealed; never after the payment is final. */
  readonly nextAction?: string;
};

/** What the partner asked for; absent fields were absent in the request. */
export type PaymentDetails = {
  readonly money: Money;
  /**
   * What the provider charges, `pm_…`; absent for a book transfer, which no provider is asked
   * about.
   */
  readonly paymentMethod?: string;
  /** Where the customer comes back to after authenticating elsewhere. */
  readonly returnUrl?: string;
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
    /** Cards only, from when a worker saw that the customer has to act. */
    readonly customer?: AwaitedCustomer;
    /** Cards only, from the moment an intent is stored. */
    readonly provider?: ProviderCharge;
  };

/** What the partner asked for; absent fields were absent in the request. */
export type RefundDetails = {
  /** Minor units of the payment's currency; absent: all that is left when the refund is posted. */
  readonly amount?: bigint;
  readonly reason?: string;
};

/** A refund as the gateway accepted it. */
export type AcceptedRefund = Accepted & {
  /** The payment whose money goes back. The refund's record and events are ordered behind it. */
  readonly paymentId: TxnId;
  readonly details: RefundDetails;
};

/** A refund as the ledger holds it. */
export type Refund = AcceptedRefund &
  TransactionProgress & {
    /**
     * What goes back, reserved on the payment; absent while the refund waits, or when nothing
     * fitted.
     */
    readonly money?: Money;
    /** The payment's charge, and the provider's refund of it once one is known; cards only. */
    readonly provider?: ProviderCharge & { readonly refundId?: string };
  };
