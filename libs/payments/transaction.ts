import type { FollowUpKind, PaymentKind } from './kinds.ts';
import type { Money, ProviderName } from './money.ts';
import type { Fingerprint, IdempotencyKey, PartnerId, TxnId } from './nominal.ts';
import type { Failure, TransactionState } from './states.ts';

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
   * What a provider charges, whom its form chooses, such as `pm_…`; absent for a book transfer,
   * which no provider is asked about.
   */
  readonly paymentMethod?: string;
  /** Where the customer comes back to after authenticating elsewhere. */
  readonly returnUrl?: string;
  /** Cards only: money is held and moves once it is captured. Absent: at once. */
  readonly captureMethod?: 'manual';
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
    /** Who is asked to charge it, chosen when it was posted; absent for a book transfer. */
    readonly chargedBy?: ProviderName;
    /** Cards only, from when a worker saw that the customer has to act. */
    readonly customer?: AwaitedCustomer;
    /** When a worker saw that the money is held, to be captured; by the store's clock. */
    readonly authorizedAt?: Date;
    /**
     * The capture or cancellation that ends the authorisation, from before the provider is asked.
     */
    readonly closedBy?: TxnId;
    /** What was captured, minor units; there once the state is `captured`. */
    readonly amountCaptured?: bigint;
    /** Cards only, from the moment an intent is stored. */
    readonly provider?: ProviderCharge;
  };

/** What the partner asked for; absent fields were absent in the request. */
export type FollowUpDetails = {
  /**
   * Minor units of the payment's currency; absent: all that is left when it is posted. A
   * cancellation has none.
   */
  readonly amount?: bigint;
  /** Not of a capture. */
  readonly reason?: string;
};

/**
 * A refund, capture or cancellation of a payment as the gateway accepted it: they share everything
 * but what becomes of the payment's money.
 */
export type AcceptedFollowUp = Accepted & {
  readonly kind: FollowUpKind;
  /** The payment whose money it is about. Record and events are ordered behind it. */
  readonly paymentId: TxnId;
  readonly details: FollowUpDetails;
};

/** The same as the ledger holds it. */
export type FollowUp = AcceptedFollowUp &
  TransactionProgress & {
    /**
     * What goes back, is captured or let go, held on the payment; absent while it waits, or when
     * nothing fitted.
     */
    readonly money?: Money;
    /** The payment's charge, and the provider's refund of it once one is known; cards only. */
    readonly provider?: ProviderCharge & { readonly refundId?: string };
  };
