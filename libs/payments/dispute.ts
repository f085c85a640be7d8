import type { Money, ProviderName } from './money.ts';
import type { DisputeId, PartnerId, TxnId } from './nominal.ts';

/** How a dispute ended, once and for ever: who has the money then, the partner or its customer. */
export type DisputeEnd = 'won' | 'lost';

/** A dispute is open until its bank has decided. */
export type DisputeStatus = 'open' | DisputeEnd;

/** What the customer of a payment wants back from the bank, as the ledger holds it. */
export type Dispute = {
  readonly id: DisputeId;
  readonly partnerId: PartnerId;
  readonly paymentId: TxnId;
  /** Who reported it, and by which id. */
  readonly provider: { readonly name: ProviderName; readonly disputeId: string };
  /** 0 or more, of the payment's currency. */
  readonly money: Money;
  /** In the provider's words. */
  readonly reason: string;
  readonly status: DisputeStatus;
  /** When the ledger first learned of it. */
  readonly createdAt: Date;
  /** By when the provider wants evidence, as it said first; absent where it wants none. */
  readonly evidenceDueBy?: Date;
  /** When the ledger learned of its end. */
  readonly endedAt?: Date;
};
