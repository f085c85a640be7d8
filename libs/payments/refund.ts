import type { Fingerprint, IdempotencyKey, PartnerId, TxnId } from './identity.ts';
import type { Money } from './money.ts';
import type { ProviderCharge } from './payment.ts';
import type { Failure, TransactionState } from './transaction.ts';

/** What the partner asked for; absent fields were absent in the request. */
export type RefundDetails = {
  /** Minor units of the payment's currency; absent: all that is left when the refund is posted. */
  readonly amount?: bigint;
  readonly reason?: string;
};

/**
 * A refund as the gateway accepted it. Everything but `acceptedAt` is a function of the request.
 */
export type AcceptedRefund = {
  readonly txnId: TxnId;
  readonly partnerId: PartnerId;
  readonly key: IdempotencyKey;
  readonly fingerprint: Fingerprint;
  /** Which form the 202 body has, so that a deploy between answer and replay changes no byte. */
  readonly responseVersion: number;
  /** The gateway's clock at the first claim; shown as `created_at`. Milliseconds. */
  readonly acceptedAt: Date;
  /** The payment whose money goes back. The refund's record and events are ordered behind it. */
  readonly paymentId: TxnId;
  readonly details: RefundDetails;
};

/** A refund as the ledger holds it. */
export type Refund = AcceptedRefund & {
  readonly state: TransactionState;
  /** Grows with every change of the row; a writer that saw an older one writes nothing. */
  readonly version: number;
  /**
   * What goes back, reserved on the payment; absent while the refund waits, or when nothing fitted.
   */
  readonly money?: Money;
  /** When it became final; null while pending. */
  readonly settledAt: Date | null;
  readonly failure?: Failure;
  /** The payment's charge, and the provider's refund of it once one is known; cards only. */
  readonly provider?: ProviderCharge & { readonly refundId?: string };
};
