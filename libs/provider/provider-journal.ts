import type { PartnerId, TxnId } from '@triplock/payments';
import { ProviderError } from './provider.ts';

/** What a provider keeps a journal of. */
export const journalKinds = ['intent', 'charge', 'refund', 'dispute'] as const;
export type JournalKind = (typeof journalKinds)[number];

/** The state of one of the provider's objects, as all kinds share it. */
export type JournalStatus =
  /** An intent that nobody has confirmed: it has charged nobody. */
  | 'unconfirmed'
  /** Not final: the customer or a bank is at work. */
  | 'pending'
  | 'succeeded'
  /** No money moved, or none stayed moved. */
  | 'failed';

/** An intent, a charge, a refund or a dispute as the provider has it. */
export type JournalRow = {
  kind: JournalKind;
  id: string;
  /**
   * `unknown`: a status that is not known here, of an object that is not marked as ours.
   */
  status: JournalStatus | 'unknown';
  /** Who has to act before it ends; absent where it is final, or nobody has to. */
  waitsFor?: 'customer' | 'bank' | 'partner';
  /** Minor units of ISO 4217, whatever unit the provider counts in. */
  amount: bigint;
  /** ISO 4217, upper case. */
  currency: string;
  /** The provider's clock, whole seconds. */
  createdAt: Date;
  /** The intent that it belongs to; of an intent, itself. */
  intentId?: string;
  /** From what every object of ours carries; absent where others made it, as each dispute. */
  txnId?: TxnId;
  partnerId?: PartnerId;
};

/** Some of what was made since a time, newest first. */
export type JournalQuery = {
  kind: JournalKind;
  since: Date;
  /** The `next` of the page before. */
  after?: string;
};

/** A page of the provider's journal; `unknown-cursor`: it has nothing by the id of `after`. */
export type JournalPage =
  | {
      outcome: 'page';
      rows: JournalRow[];
      /** Where the next page begins; absent on the last one. */
      next?: string;
    }
  | { outcome: 'unknown-cursor' };

/**
 * Where the page behind one begins; nothing where that was the last.
 *
 * @throws ProviderError for one of which more follows and nobody can say from where: taken for the
 * last it would leave out the rest, which then seems to be missing at the provider.
 */
export function nextPage({
  after,
  more,
  last,
}: {
  after: string | undefined;
  more: boolean;
  /** The id of the last object on the page. */
  last: string | undefined;
}): string | undefined {
  if (!more) return undefined;
  if (last === undefined || last === after) throw new ProviderError({ type: 'endless_list' });
  return last;
}

/**
 * The provider's own account of what happened, only read: what the ledger's charges and refunds are
 * compared with. It is consistent: what a caller has seen before is on the list.
 *
 * @throws ProviderError when the provider cannot be asked, tried again where that may help; and
 * when an object of ours has a status that is not known here.
 */
export type ProviderJournal = {
  list(query: JournalQuery): Promise<JournalPage>;
  /** One of them as it is now; nothing when the provider has none by that id. */
  read(kind: JournalKind, id: string): Promise<JournalRow | undefined>;
};
