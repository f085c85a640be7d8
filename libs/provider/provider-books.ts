import type { PartnerId, TxnId } from '@triplock/payments';

/** What a provider keeps books of. */
export const bookKinds = ['intent', 'charge', 'refund'] as const;
export type BookKind = (typeof bookKinds)[number];

/** How an entry of the provider's stands, in the words that all three kinds share. */
export type BookStatus =
  /** An intent that nobody has confirmed: it has charged nobody. */
  | 'unconfirmed'
  /** Not final: the customer or a bank is at work. */
  | 'pending'
  | 'succeeded'
  /** No money moved, or none stayed moved. */
  | 'failed';

/** An intent, a charge or a refund as the provider has it. */
export type BookRow = {
  kind: BookKind;
  id: string;
  /**
   * `unknown`: of a word that is not known here, and not ours by anything that it says of itself.
   */
  status: BookStatus | 'unknown';
  /** Minor units. */
  amount: bigint;
  /** ISO 4217, upper case. */
  currency: string;
  /** The provider's clock, whole seconds. */
  createdAt: Date;
  /** The intent that it belongs to; of an intent, itself. */
  intentId?: string;
  /** From what every object of ours carries; absent where others made it. */
  txnId?: TxnId;
  partnerId?: PartnerId;
};

/** Some of what was made since a time, newest first. */
export type BookQuery = {
  kind: BookKind;
  since: Date;
  /** The `next` of the page before. */
  after?: string;
};

/** A page of the provider's books; `unknown-cursor`: it has nothing by the id of `after`. */
export type BookPage =
  | {
      outcome: 'page';
      rows: BookRow[];
      /** Where the next page begins; absent on the last one. */
      next?: string;
    }
  | { outcome: 'unknown-cursor' };

/**
 * The provider's own books, only read: the other side of the ledger's charges and refunds. It is
 * consistent: what a caller has seen before is on the list.
 *
 * @throws ProviderError when the provider cannot be asked, tried again where that may help; and
 * when it says of an object of ours what cannot be made sense of.
 */
export type ProviderBooks = {
  list(query: BookQuery): Promise<BookPage>;
  /** One of them as it is now; nothing when the provider has none by that id. */
  read(kind: BookKind, id: string): Promise<BookRow | undefined>;
};
