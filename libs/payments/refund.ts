import type { TxnId } from './identity.ts';
import type { Money } from './money.ts';
import type { Accepted, TransactionProgress, ProviderCharge } from './transaction.ts';

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
