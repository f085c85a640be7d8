import type {
  AcceptedPayment,
  Dispute,
  DisputeEnd,
  DisputeId,
  DisputeStatus,
  EventId,
  Fingerprint,
  Money,
  PartnerId,
  Payment,
  PaymentStatus,
  ProviderName,
  Settlement,
  TransactionKind,
  TransactionState,
  TxnId,
} from '@triplock/payments';
import type { PostedPortion } from './posted-within.ts';

/** A payment to post. With a `settlement` (book transfers) it is posted and settled in one step. */
export type Posting = {
  payment: AcceptedPayment;
  traceparent: string;
  settlement?: { result: Settlement; settledAt: Date };
  /** Who is asked to charge it; absent for a book transfer. */
  provider?: ProviderName | undefined;
};

/** What posting one payment came to. */
export type PostOutcome =
  /** This call made the row, its entries and, when settled, its outbox row. */
  | { outcome: 'posted' }
  /** A duplicate of a finished row: success, and nothing was written. */
  | { outcome: 'already-recorded'; state: TransactionState }
  /** A duplicate of a row that somebody began and may have died over: resume it. */
  | { outcome: 'unfinished'; version: number }
  /** The key belongs to another request, which was first. */
  | { outcome: 'key-conflict'; winner: Fingerprint };

/**
 * What settling came to. `stale`: the row is final or of another version, and nothing was written.
 */
export type SettleOutcome = { outcome: 'settled' } | { outcome: 'stale' };

/** A final state for one pending row, guarded by the version that was read. */
export type SettleRequest = {
  txnId: TxnId;
  version: number;
  result: Settlement;
  settledAt: Date;
  traceparent: string;
  /** The provider's id of the charge, when a card was charged. */
  chargeId?: string;
  /** Its intent, where the row has none yet, because one call made and charged it. */
  intent?: Pick<StoreIntentRequest, 'provider' | 'intentId'>;
  /**
   * For how many milliseconds this waits for whoever has the row; unless given, for as long as a
   * statement may take.
   */
  lockMs?: number;
};

/**
 * An intent at the provider, unconfirmed, for one pending row, guarded by the version that was
 * read.
 */
export type StoreIntentRequest = {
  txnId: TxnId;
  version: number;
  provider: ProviderName;
  intentId: string;
};

/** What storing an intent came to. `stale`: it must never be confirmed, because no row names it. */
export type StoreIntentOutcome = { outcome: 'stored'; version: number } | { outcome: 'stale' };

/** A card's customer has to act: for one pending row, guarded by the version that was read. */
export type AwaitCustomerRequest = {
  txnId: TxnId;
  version: number;
  /** How long the customer has from now on, milliseconds, unless that was noted before. */
  withinMs: number;
  /** What to do: its kind, and all of it sealed, which is kept until the payment is final. */
  action?: { type: string; sealed: string };
  traceparent: string;
};

/**
 * Whether a customer still has time, by the store's own clock. `stale`: the row is final or of
 * another version, and nothing was written.
 */
export type AwaitCustomerOutcome =
  | { outcome: 'waits'; version: number }
  | { outcome: 'over'; version: number }
  | { outcome: 'stale' };

/** What the provider reports of a customer who wants the money back from the bank. */
export type DisputeReport = {
  provider: ProviderName;
  intentId: string;
  disputeId: string;
  /** What is disputed, minor units of this currency, 0 or more. */
  amount: bigint;
  /** ISO 4217, in capitals. */
  currency: string;
  /** In the provider's words, such as `fraudulent`. */
  reason: string;
  /** By when the provider wants evidence, where it does; what it said first stays. */
  evidenceDueBy?: Date | undefined;
  /** How it has ended, once it has; what was said first stays. */
  end?: DisputeEnd | undefined;
};

/**
 * What a report came to. `not-final`: the payment is pending yet, so nothing was written and the
 * report has to come again.
 */
export type DisputeOutcome =
  | { outcome: 'disputed'; txnId: TxnId }
  /** This dispute was reported before, and this call noted its end. */
  | { outcome: 'ended'; txnId: TxnId }
  /** This dispute was reported before, and so was its end if it has one: nothing was written. */
  | { outcome: 'already-noted'; txnId: TxnId }
  | { outcome: 'not-final'; txnId: TxnId }
  /** The payment's is another one, in which this amount cannot be told: nothing was written. */
  | { outcome: 'other-currency'; txnId: TxnId }
  /** No payment has this intent. */
  | { outcome: 'unknown' };

/** A card's money is held: for one pending row, guarded by the version that was read. */
export type AuthorizeRequest = {
  txnId: TxnId;
  version: number;
  traceparent: string;
  /** Whether it still is; one that was captured or let go since then is not given up any more. */
  hold: 'stands' | 'ended';
  /** Since when and until when by the provider's clock, where it says so. */
  heldSince?: Date | undefined;
  heldUntil?: Date | undefined;
};

/**
 * How far the provider's clock and the store's may be apart, milliseconds. Who acted so long before
 * the time was over did so in time by either clock; whoever acts after the end of it, and has the
 * intent cancelled meanwhile by a worker that saw nobody act, did not.
 */
export const clocksDifferMs = 300_000;

/** The time by which a hold certainly began, by the store's clock. */
export function begunBy({ heldSince }: Pick<AuthorizeRequest, 'heldSince'>): Date | undefined {
  return heldSince && new Date(+heldSince + clocksDifferMs);
}

/**
 * What noting a hold came to. `over`: the customer's time ended before, by the store's own clock,
 * the hold did not certainly begin within it, and nothing was written: it has to be let go.
 * `stale`: the row is final, of another version or noted before.
 */
export type AuthorizeOutcome =
  { outcome: 'stored'; version: number } | { outcome: 'over' } | { outcome: 'stale' };

/**
 * Bytes of a page: a kilobyte for each payment, which its other fields are at most, and the texts
 * that its partner or the provider gave it. A hundred of the longest would be 4.5 MB, which costs
 * whoever renders them as much as all that others ask for.
 */
export const pageBytesMax = 262_144;

/** A page of one partner's payments, and what all of them have in common. */
export type ListRequest = {
  partnerId: PartnerId;
  /** Payments at most, 1 or more. */
  limit: number;
  /**
   * Bytes at most, as {@link pageBytesMax} counts them and by default as many: the page ends before
   * the payment with which it would have more, but never before its first.
   */
  bytesMax?: number;
  /** The page begins behind this payment, whatever has become of it since. */
  after?: TxnId;
  status?: PaymentStatus;
  reference?: string;
  /** Accepted then or later. */
  since?: Date;
  /** Accepted earlier. */
  until?: Date;
};

/**
 * The column by which a status is looked for, and whether the payment was authorised: before its
 * end the ledger holds both as `pending`.
 */
export function wishOf(status: PaymentStatus | undefined): {
  state?: TransactionState;
  isAuthorized?: boolean;
} {
  if (status === 'authorized') return { state: 'pending', isAuthorized: true };
  if (status === 'pending') return { state: 'pending', isAuthorized: false };
  return status === undefined ? {} : { state: status };
}

/**
 * A page; `unknown-cursor`: the payment it should begin behind is not this partner's, or not
 * posted.
 */
export type ListOutcome =
  { outcome: 'page'; payments: Payment[]; hasMore: boolean } | { outcome: 'unknown-cursor' };

/** A page of one partner's disputes, and what all of them have in common. */
export type DisputeListRequest = {
  partnerId: PartnerId;
  /** Disputes at most, 1 or more. */
  limit: number;
  /** The page begins behind this dispute, whatever has become of it since. */
  after?: DisputeId | undefined;
  /** Those of this payment. */
  paymentId?: TxnId | undefined;
  status?: DisputeStatus | undefined;
};

/** A page; `unknown-cursor`: the dispute it should begin behind is not this partner's. */
export type DisputeListOutcome =
  { outcome: 'page'; disputes: Dispute[]; hasMore: boolean } | { outcome: 'unknown-cursor' };

/** Somebody else has the row, and had it for longer than was to be waited: nothing was written. */
export class RowLockedError extends Error {
  override name = 'RowLockedError';
}

/** This input can never be stored. Everything else a ledger throws is worth trying again. */
export class UnpostableError extends Error {
  override name = 'UnpostableError';
}

/**
 * Guard 2: one row per transaction id, for ever. A conflict is not an error.
 *
 * Every method is all-or-nothing and safe to repeat. A rejection other than UnpostableError means
 * that the outcome is unknown.
 */
export type Ledger = {
  /**
   * Posts a batch in one statement and returns, in the same order, what came of each. Duplicates
   * inside the batch are posted once.
   *
   * @throws UnpostableError when one of the batch can never be stored; none of it was.
   */
  post(batch: readonly Posting[]): Promise<PostOutcome[]>;
  /** Makes an intent the one that may be confirmed for a payment; a payment has one, for ever. */
  storeIntent(request: StoreIntentRequest): Promise<StoreIntentOutcome>;
  /**
   * Notes, once for ever, until when a payment waits for its customer, tells the partner by the
   * payment's next event, and says whether that time is over. It is counted and compared by the
   * store's clock: no worker's clock has a say.
   */
  awaitCustomer(request: AwaitCustomerRequest): Promise<AwaitCustomerOutcome>;
  /**
   * Notes, once for ever, that a payment's money is held, tells the partner by the payment's next
   * event, and lets what waits for it be due: captures and cancellations. What the customer had to
   * do is erased.
   *
   * A hold that stands is not noted once the customer's time is over: a worker that saw it end may
   * be about to give the intent up, and what the partner was told of must not be let go so. One
   * that began `clocksDifferMs` before that end is noted however late: whoever gives an intent up
   * looked after that end and saw it still waiting.
   */
  authorize(request: AuthorizeRequest): Promise<AuthorizeOutcome>;
  /** @throws RowLockedError where it is to wait for no longer. */
  settle(request: SettleRequest): Promise<SettleOutcome>;
  /**
   * Notes a dispute of a payment, each once for ever, and tells the partner by the payment's next
   * event. No state changes: whether the money stays is between the partner and the bank. One of
   * more than was taken is told too, since the bank asks for that.
   *
   * Its end is noted with it, or later: each once, in whatever order the reports come. It changes
   * no state either, and no event tells of it: {@link Ledger.listDisputes} does.
   *
   * @throws UnpostableError for a text that no ledger holds.
   */
  noteDispute(report: DisputeReport): Promise<DisputeOutcome>;
  /** A partner's dispute by its id; nothing where it is not there, or another partner's. */
  findDispute(asked: { id: DisputeId; partnerId: PartnerId }): Promise<Dispute | undefined>;
  /**
   * A partner's disputes, newest first by when the ledger learned of them, then by id. Pages and
   * `status` are as {@link Ledger.list} has them.
   */
  listDisputes(request: DisputeListRequest): Promise<DisputeListOutcome>;
  /** Tells the partner, by an event, that the key was used for two requests. Once per loser. */
  recordKeyConflict(posting: Posting): Promise<EventId>;
  find(txnId: TxnId): Promise<Payment | undefined>;
  /**
   * Of some ids those that were posted, as a payment or as what follows one, and as which kind. The
   * store looks after the call, and at all of them at once.
   */
  kindsOf(ids: readonly TxnId[]): Promise<ReadonlyMap<TxnId, TransactionKind>>;
  /**
   * The ids of everything that was posted within the last `ms` milliseconds, in portions, oldest
   * first: of payments and of what follows one. Some that were posted before may be among them, and
   * some come twice. What is posted while it is read may be missing.
   *
   * It counts back from the store's own now. When a row was posted the store knows or, where it
   * notes no such time, a worker's clock when it was settled.
   */
  postedWithin(ms: number): AsyncIterable<PostedPortion>;
  /**
   * A partner's payments, newest first by the time of acceptance, then by id.
   *
   * Following `hasMore` to the end, each page behind the last payment of the one before, gives
   * every payment once that was posted when the first page was read. One that is posted meanwhile
   * is given once when its position is still ahead, and not at all when it is behind: a payment can
   * be posted later than one that was accepted after it. Nothing is given twice. A `status` is that
   * of the moment in which the page is read.
   */
  list(request: ListRequest): Promise<ListOutcome>;
  /**
   * What a partner's payments come to that are posted and not final, by currency in the order of
   * their codes: read from the index of those alone, however many others there are.
   */
  pendingOf(partnerId: PartnerId): Promise<Money[]>;
  isEmpty(): Promise<boolean>;
  ping(): Promise<void>;
  close(): Promise<void>;
};
