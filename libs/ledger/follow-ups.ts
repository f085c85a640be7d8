import type {
  AcceptedFollowUp,
  EventId,
  Failure,
  Fingerprint,
  Money,
  PartnerId,
  FollowUp,
  ProviderName,
  Settlement,
  TransactionState,
  TxnId,
} from '@triplock/payments';
import type { SettleOutcome, StoreIntentOutcome } from './ledger.ts';

/** A refund to post, and when it is settled if no provider has to be asked. */
export type FollowUpPosting = {
  followUp: AcceptedFollowUp;
  traceparent: string;
  settledAt: Date;
  /**
   * Why the payment's provider can never move so much; nothing when it may. Looked at before
   * anything is held for it, where a provider has to be asked.
   */
  refuse?: (money: Money, provider: ProviderName) => Failure | undefined;
};

/** What posting a refund, or looking at one again, came to. */
export type FollowUpOutcome =
  /** This call made it final: of a book transfer, or one that can never be given back. */
  | { outcome: 'settled'; state: 'succeeded' | 'failed' }
  /** It was final before, and nothing was written. */
  | { outcome: 'already-recorded'; state: TransactionState }
  /**
   * Its amount is held on the payment, and the provider, whom nobody has asked, must give it back.
   */
  | { outcome: 'reserved'; followUp: ReservedFollowUp }
  /** The same, but the row was there before: whoever made it may have asked the provider. */
  | { outcome: 'unfinished'; followUp: ReservedFollowUp }
  /**
   * Its payment is not there, not final or, for a capture, not authorised, or another capture or
   * cancellation is under way, or somebody holds the payment's lock and nobody waits for that: the
   * row is looked at again when it is due.
   */
  | { outcome: 'waiting' }
  /**
   * The ledger was set back since its payment was accepted: before anything is decided of it, the
   * provider has to be asked for every refund that it made of this charge, and `recall` told. One
   * that is new is due at once.
   */
  | { outcome: 'unasked'; paymentId: TxnId }
  /** The key belongs to another request, which was first. */
  | { outcome: 'key-conflict'; winner: Fingerprint };

/** A refund of ours that the provider shows; with a failure where it gave nothing back. */
export type GivenBack = { txnId: TxnId; amount: bigint; failure?: Failure };

/** A refund whose amount no other refund can take, and the charge that it is of. */
export type ReservedFollowUp = FollowUp & Required<Pick<FollowUp, 'money' | 'provider'>>;

/** How what follows a payment ends: a payment alone is captured or canceled. */
export type FollowUpEnd = Extract<Settlement, { state: 'succeeded' }> | FailedEnd;
type FailedEnd = { state: 'failed'; failure: Failure };

/** A final state for one reserved refund, guarded by the version that was read. */
export type SettleFollowUpRequest = {
  txnId: TxnId;
  version: number;
  result: FollowUpEnd;
  settledAt: Date;
  traceparent: string;
  /** The provider's own id of it, where there is one. */
  refundId?: string;
  /** How a payment ends with a capture or cancellation of it; absent: it stays authorised. */
  payment?: { result: Settlement; chargeId?: string };
};

/** The provider's id of one reserved refund, guarded by the version that was read. */
export type StoreRefundIdRequest = { txnId: TxnId; version: number; refundId: string };

/** Which of a payment's refunds to list; `after` is the last one of the page before. */
export type RefundListRequest = {
  paymentId: TxnId;
  partnerId: PartnerId;
  limit: number;
  /** As of `Ledger.list`. */
  bytesMax?: number;
  after?: TxnId;
};

/** What asking for a page gives. Another payment's refund is an unknown cursor. */
export type RefundListOutcome =
  | { outcome: 'page'; refunds: readonly FollowUp[]; hasMore: boolean }
  | { outcome: 'unknown-cursor' };

/**
 * What follows a payment, under guard 2: transactions of their own. Refunds are capped by a column
 * of their payment that one guarded statement raises, so that any number at once never exceed it.
 * Captures and cancellations take the payment itself, by a column that names the one that has it:
 * so of any number at once one asks the provider, and the others are told what became of it.
 *
 * Every method is all-or-nothing and safe to repeat. A rejection other than UnpostableError means
 * that the outcome is unknown.
 */
export type FollowUps = {
  /**
   * Posts one, and reserves or settles it as far as its payment allows, in one transaction.
   *
   * @throws UnpostableError when it can never be stored.
   */
  post(posting: FollowUpPosting): Promise<FollowUpOutcome>;
  /**
   * Makes a reserved one final, with the payment's next sequence, its entry and its event; and its
   * payment where that ends with it, with the sequence and the event after them. A capture or
   * cancellation that failed lets go of the payment.
   */
  settle(request: SettleFollowUpRequest): Promise<SettleOutcome>;
  /** Stores the provider's id of a refund that the provider has yet to finish. */
  storeRefundId(request: StoreRefundIdRequest): Promise<StoreIntentOutcome>;
  /**
   * Notes every refund of ours that the provider shows of a payment. From then on each is given the
   * amount and the end that it has there, whatever order they are decided in, and no other gets any
   * of it; and `post` no longer answers `unasked` for this payment. Absent where it never does.
   *
   * @param request.refunds all of them: what is not there counts as never made.
   */
  recall?(request: { paymentId: TxnId; refunds: readonly GivenBack[] }): Promise<void>;
  /** Tells the partner, by an event, that the key was used for two refunds. Once per loser. */
  recordKeyConflict(posting: FollowUpPosting): Promise<EventId>;
  find(txnId: TxnId): Promise<FollowUp | undefined>;
  /**
   * A page of a payment's refunds of that partner, newest first, as `Ledger.list` is of payments.
   */
  listOf(request: RefundListRequest): Promise<RefundListOutcome>;
};

/** Why the ledger refuses what follows a payment, for partners. */
export const refusals = {
  amount_exceeds_authorized: 'More than what was authorised.',
  payment_already_captured: 'The payment was captured before.',
  payment_canceled: 'The payment was cancelled.',
  authorization_expired: 'The authorisation expired before it was captured.',
  payment_not_authorized: 'Only a payment that is authorised can be captured or cancelled.',
  payment_not_refundable: 'Only a payment that succeeded or was captured can be refunded.',
  amount_exceeds_refundable: 'More than what is left of the payment.',
};

/** What looking at the payment came to. */
export type FollowUpDecision =
  /** Its amount, or the payment itself, is held for it, now or before. */
  | 'reserved'
  /** It may be possible later. */
  | 'waiting'
  /** It never will. */
  | keyof typeof refusals;

/** How an authorisation ended at the provider, in the words that partners know. */
export function canceledBy(failure: Failure): { state: 'canceled'; failure: Failure } {
  const code = failure.code === 'authorization_expired' ? failure.code : 'payment_canceled';
  return { state: 'canceled', failure: { code, message: refusals[code] } };
}

/** Why a capture or cancellation has nothing left to do. */
export function refusalOf(code: keyof typeof refusals): Failure {
  return { code, message: refusals[code] };
}

/** The end that a decision leads to where no provider has to be asked. */
export function resultOf(decision: Exclude<FollowUpDecision, 'waiting'>): FollowUpEnd {
  if (decision === 'reserved') return { state: 'succeeded' };
  return { state: 'failed', failure: { code: decision, message: refusals[decision] } };
}
