import type { Payment, ProviderName, FollowUp, TxnId } from '@triplock/payments';

/**
 * How long a pending row is left to the worker that posted it, milliseconds: longer than a charge
 * takes where nothing goes wrong. Two workers at one row cost calls and do no harm, since each
 * write compares the version.
 */
export const ownMs = 20_000;

/** A pending row that was not finished in time, as it is now. */
export type DueTransaction =
  | { kind: 'payment'; payment: Payment; traceparent: string }
  | { kind: 'follow-up'; followUp: FollowUp; traceparent: string }
  /** Taken like the others, and its contents make no sense: a person has to mend it. */
  | { kind: 'unreadable'; txnId: TxnId; error: unknown };

/**
 * Which rows are taken. `settled-here`: those that come to an end in the ledger alone, whatever any
 * provider does, which are book transfers and refunds that have yet to be reserved. Else those that
 * one provider is asked about, so that one that is away holds up nothing of another's.
 */
export type DueRows = 'all' | 'settled-here' | { readonly provider: ProviderName };

/**
 * Takes up to `limit` pending transactions whose time has come, longest due first, so that no two
 * callers get the same: each is due again later, after a quarter of the time that it has been
 * pending (`leaseMs` at least, a minute at most). A payment whose money is held is due again after
 * as long as it has been held: an hour at least, a day at most, and shortly after the hold ends at
 * the provider, from where it grows anew. The provider reports what becomes of a hold, so a look is
 * only a net for a report that was lost; it is a tenth sooner or later, so that holds of one moment
 * are not all asked about in another. A worker that holds an older version writes
 * nothing. One that cannot be read is `unreadable`, so that it holds up none of the others.
 *
 * @throws in an outage: what was taken by then is due again later.
 */
export type TakeDue = (request: {
  limit: number;
  leaseMs: number;
  /** `all` by default. */
  rows?: DueRows;
}) => Promise<DueTransaction[]>;

/**
 * What an event of the provider says: something is new about one intent or its refunds.
 */
export type ProviderEvent = {
  provider: ProviderName;
  /** The provider's, the same for every copy. */
  eventId: string;
  type: string;
  intentId: string;
  /** The payment whose money the intent has taken or holds, by the event's own word. */
  paidFor?: TxnId;
};

/** Whom an event lets be due. */
type Woken =
  /** These are due. */
  | { outcome: 'woken'; txnIds: TxnId[] }
  /** It woke somebody before: nothing was written. */
  | { outcome: 'duplicate' }
  /** No pending transaction is about that intent: nothing was written. */
  | { outcome: 'nothing-waits' };

/** What an event came to. Each is to be acknowledged. */
export type WakeOutcome = Woken & {
  /**
   * The payment that it says was paid had ended without this money: it was not paid, or by another
   * intent. Told of every copy; whether the provider still has the money, it has to be asked.
   */
  paidAfterEnd?: boolean;
};

/**
 * Lets the pending transactions be due now that an event is about, once per event id, both in one
 * transaction. Their version does not change: a worker that is at one goes on. What the event says
 * of a state is not looked at, so events may come in any order, late, and more than once.
 */
export type WakeDue = (event: ProviderEvent) => Promise<WakeOutcome>;
