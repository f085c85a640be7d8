import type { TooMany } from './pace.ts';
import type {
  DisputeEnd,
  Failure,
  IdempotencyKey,
  Money,
  PartnerId,
  TransactionKind,
  TxnId,
} from '@triplock/payments';

/** Whose call it is: the partner's own key is passed through in every call's idempotency key. */
export type Caller = {
  readonly txnId: TxnId;
  readonly kind: TransactionKind;
  readonly partnerId: PartnerId;
  readonly key: IdempotencyKey;
};

/**
 * Which attempt of a caller's it is, normally 1. A kept error would come back under one
 * attempt's key for ever, so the next attempt has a key of its own; it is allowed once it was seen
 * that the one before did nothing that counts, and that it will do nothing that counts if it comes
 * to life late.
 */
export type Attempt = { readonly attempt: number };

/** Where a customer comes back to; none is sent elsewhere without it. */
type ComesBack = { readonly returnUrl?: string | undefined };

/** A charge to prepare. */
export type IntentRequest = Caller &
  Attempt &
  ComesBack & {
    readonly money: Money;
    readonly paymentMethod: string;
    /** `manual`: the confirmation only holds the money. */
    readonly captureMethod?: 'manual' | undefined;
    /**
     * `charge`: by the key of the one call that charges at once, which from then on makes nothing;
     * and where that was made before, nothing is made here (`keyTaken`). It has one attempt.
     */
    readonly under?: 'charge';
  };

/** An intent, and what it must be about: an answer about anything else is unknown. */
export type IntentQuery = {
  readonly intentId: string;
  readonly txnId: TxnId;
  readonly money: Money;
  /** `manual`: what is held is also told with its times. */
  readonly captureMethod?: 'manual' | undefined;
};

/** A charge that may have been made by a call of which nothing is known here. */
export type ForgottenCharge = {
  readonly txnId: TxnId;
  readonly money: Money;
  /** No intent of it is older. */
  readonly acceptedAt: Date;
};

/**
 * Held money to take, or a part of it: the rest is let go. Another attempt is allowed while it
 * reads as authorised.
 */
export type CaptureRequest = Caller &
  Attempt &
  IntentQuery & {
    /** Minor units. */
    readonly amount: bigint;
  };

/** Who lets an intent go: a customer who never came, or the partner. */
export type CancelRequest = IntentQuery & {
  /** `abandoned` by default. */
  readonly because?: 'abandoned' | 'requested_by_customer';
};

/** An intent to confirm. */
export type ConfirmRequest = Caller & Attempt & IntentQuery & ComesBack;

/**
 * Part of a charge to give back. There is no other attempt: no object at the provider refuses the
 * second of two partial refunds, so whatever the first call may still come to has one key.
 */
export type RefundRequest = Caller & IntentQuery;

/**
 * Nobody knows what became of a call: a time-out, a reset, a 429, a 5xx, half an answer, or an
 * answer that makes no sense. It is never a failure of the payment.
 */
export type Unknown = {
  readonly outcome: 'unknown';
  readonly error: unknown;
  /**
   * Whether the provider gave a definite error and keeps it as its answer to this idempotency key,
   * so that asking again under the same key can only bring it back.
   */
  readonly kept: boolean;
  /** `false`: the call was never sent, so certainly nothing came of it. */
  readonly sent: boolean;
  /** When the provider wants to be asked again, milliseconds. */
  readonly retryAfterMs?: number;
  /**
   * The provider turned the call away because of a limit, before it looked at it: nothing came of
   * it, and asked more slowly it takes the same call, by the same key.
   */
  readonly tooMany?: TooMany;
  /**
   * `true`: the call was refused for no fault of the payment, such as a wrong API key, and will be
   * until a person has mended that.
   */
  readonly untilMended?: true;
};

/** Far above what a bad hour of the provider uses up at one fresh key a pass. */
const attemptsMax = 100;

/**
 * The attempt after one whose answer is unknown, or none when another key would not help now. Only
 * an answer that is certainly kept is passed by, and an answer is known as kept when it comes a
 * second time: so a pass uses up one fresh key at most, and passes are seconds apart.
 */
export function nextAttempt(attempt: number, answer: Unknown): number | undefined {
  return answer.kept && attempt < attemptsMax ? attempt + 1 : undefined;
}

/** Money that a provider can never be asked for, and which part of it is to be changed. */
export type Inexpressible = { readonly field: 'amount' | 'currency'; readonly failure: Failure };

/**
 * What preparing a charge came to. `refused`: it can never be charged, such as an unknown method,
 * or an amount that the provider's own unit does not have (`amount_not_expressible`).
 */
export type CreateOutcome =
  { outcome: 'created'; intentId: string } | { outcome: 'refused'; failure: Failure } | UnknownHere;

/**
 * `keyTaken`: a call of other parameters has the caller's key, which may still be under way. What
 * it makes is to be looked for.
 */
type UnknownHere = Unknown & { readonly keyTaken?: true };

/**
 * What charging in one call came to. `made`: an intent that was confirmed with it; `seen` is how
 * far that came, absent where the answer is of an earlier moment, so that the intent has to be
 * read. `refused`: nothing was made.
 */
export type ChargeOutcome =
  | { outcome: 'made'; intentId: string; seen?: IntentOutcome }
  | { outcome: 'refused'; failure: Failure }
  | UnknownHere;

/** What looking for a charge's intent came to. */
export type FoundIntent = { outcome: 'found'; intentId: string } | { outcome: 'none' } | Unknown;

/**
 * What a customer has to do, in the provider's words. Whoever has it can act for the customer: it
 * is sealed before it is stored, and never logged.
 */
export type CustomerAction = {
  /** Such as `redirect_to_url` or `use_stripe_sdk`. */
  readonly type: string;
  /** Where to send the customer. */
  readonly url?: string;
  /** For the provider's own code in the customer's browser. */
  readonly clientSecret: string;
};

/** Times of a hold, by the provider's clock in whole seconds; absent where it does not say. */
export type HoldTimes = {
  /** Since when the money is held: a customer who had to act did so before. */
  readonly heldSince?: Date;
  /** Until when, unless it is captured or let go before. */
  readonly heldUntil?: Date;
};

/** The state of a charge. */
export type IntentOutcome =
  | {
      outcome: 'succeeded';
      chargeId: string;
      /** Minor units: less than what was asked for where a part was captured. */
      received: bigint;
    }
  /** The money is held until it is captured or let go, or the provider lets it go. */
  | ({ outcome: 'authorized' } & HoldTimes)
  /** The intent was cancelled, so nobody confirms it any more: final. */
  | {
      outcome: 'declined';
      failure: Failure;
      /** The answer shows that the money was held before; without it nobody can say so. */
      wasHeld?: true;
    }
  /**
   * The bank refused it, or its customer failed to authenticate, and it is open for another try:
   * whoever was given its secret may yet be charged. It is an end only once it is cancelled.
   */
  | { outcome: 'reopened'; failure: Failure }
  /** Nobody has confirmed it, and so it has charged nobody. */
  | { outcome: 'unconfirmed' }
  /** The customer has to act, or the provider is at work: a webhook will report, or it is asked. */
  | { outcome: 'waiting'; waitsFor: 'provider' }
  | { outcome: 'waiting'; waitsFor: 'customer'; action?: CustomerAction }
  | Unknown;

/** What capturing came to; `refused`: nothing was taken, for this reason. */
export type CaptureOutcome = IntentOutcome | { outcome: 'refused'; failure: Failure };

/** The state of a refund at the provider. */
export type RefundAtProvider =
  | { outcome: 'succeeded'; refundId: string }
  | { outcome: 'waiting'; refundId: string }
  | { outcome: 'refused'; failure: Failure; refundId?: string }
  | Unknown;

/** A refund of ours as the provider shows it in the list of its intent. */
export type ListedRefund = {
  readonly txnId: TxnId;
  readonly refundId: string;
  /** Minor units of the intent's currency. */
  readonly amount: bigint;
  /** Why it gave nothing back in the end; absent where it did, or may yet. */
  readonly failure?: Failure;
};

/** Whose intent it is. */
export type IntentsTransaction = { outcome: 'ours'; txnId: TxnId } | { outcome: 'none' } | Unknown;

/** Every refund of ours of one intent, or that nobody knows. */
export type ListedRefunds = { outcome: 'listed'; refunds: readonly ListedRefund[] } | Unknown;

/** A dispute as the provider shows it. */
export type ListedDispute = {
  readonly disputeId: string;
  readonly intentId: string;
  /** Minor units of this currency, 0 or more. */
  readonly amount: bigint;
  /** ISO 4217, in capitals. */
  readonly currency: string;
  /** In the provider's words, such as `fraudulent`. */
  readonly reason: string;
  /** By when it wants evidence; absent where it wants none. */
  readonly evidenceDueBy?: Date;
  /** How it ended, once it has: `won` where the money is not with the customer. */
  readonly end?: DisputeEnd;
};

/** Some disputes, newest first, and where the next page begins; absent on the last one. */
export type ListedDisputes =
  { outcome: 'listed'; disputes: readonly ListedDispute[]; next?: string } | Unknown;

/**
 * For how long a provider surely gives the same answer to the same caller, milliseconds. Stripe
 * keeps an idempotency key for 24 hours at least (docs.stripe.com/api/idempotent_requests); the
 * rest is for clocks that differ, and for a caller who sleeps between looking and asking.
 */
const callersKnownMs = 20 * 3_600_000;

/** Whether what was asked for at a time may be made again by asking again: so look first. */
export function mayBeForgotten(acceptedAt: Date): boolean {
  return Date.now() - acceptedAt.getTime() > callersKnownMs;
}

/**
 * For how long after its acceptance a payment is charged in one call, milliseconds. Whoever sends
 * such a call after another one's key was forgotten charges twice: that takes a process that stands
 * still between looking at its clock and sending for what is left of a key's 24 hours.
 */
const chargedAtOnceMs = 12 * 3_600_000;

/** Whether a payment that has no intent is so young that one call charges it. */
export function isChargedAtOnce(acceptedAt: Date): boolean {
  return Date.now() - acceptedAt.getTime() <= chargedAtOnceMs;
}

/**
 * Who charges cards. Charging is two steps, so that nothing held in memory has to last: an intent
 * that is prepared charges nobody, its id is stored in the ledger, and only a stored one is
 * confirmed. An intent succeeds once by its own state, however often it is confirmed. Where a
 * provider keeps what it did under a caller's key, a young payment is charged in one call.
 *
 * Amounts are minor units of ISO 4217 in and out, whatever unit the provider counts in.
 *
 * No method throws for what a provider does: that is `unknown`.
 */
export type Provider = {
  /**
   * Prepares a charge and confirms it in one call, where a provider has that. The same caller gets
   * the same intent, and nobody is charged again, for 24 hours at least; there is no other attempt,
   * and none by `createIntent` but under this call's key, or once its answer is kept and
   * `findIntent` found nothing.
   */
  charge?(request: Omit<IntentRequest, 'attempt' | 'under'>): Promise<ChargeOutcome>;
  /**
   * Of which transaction an intent is, as it says itself: where one call charges, a report of it
   * may come before anybody has stored its id. `none`: it is not ours, or not there.
   */
  transactionOf?(intentId: string): Promise<IntentsTransaction>;
  /**
   * Prepares a charge, unconfirmed. The same caller gets the same intent for 24 hours at least.
   * Another attempt is always allowed: an intent that nobody confirms charges nobody.
   */
  createIntent(request: IntentRequest): Promise<CreateOutcome>;
  /**
   * The intent that was made for a charge, found by the transaction id that every intent of ours
   * carries, in lists, which are consistent. Where there are several it is the one that ended, or
   * may end, with money moved, so that no other is confirmed.
   */
  findIntent(charge: ForgottenCharge): Promise<FoundIntent>;
  /** Confirms a stored intent. Another attempt is allowed while it reads as unconfirmed. */
  confirmIntent(request: ConfirmRequest): Promise<IntentOutcome>;
  /** The state of an intent now, by its id. */
  readIntent(asked: IntentQuery): Promise<IntentOutcome>;
  /** Takes held money. An intent is captured once by its own state, however often it is asked. */
  captureIntent(request: CaptureRequest): Promise<CaptureOutcome>;
  /**
   * Takes back an intent that nobody shall go on with, also one that was refused. Its state
   * afterwards, whoever was faster; one that was refused before it was cancelled still says why.
   */
  cancelIntent(asked: CancelRequest): Promise<IntentOutcome>;
  /**
   * Gives money back. Look with `findRefund` before doing so again after an unknown outcome. Where
   * the provider keeps an error under the caller's one key, it comes back until that is forgotten.
   */
  refund(request: RefundRequest): Promise<RefundAtProvider>;
  /**
   * The refund that an earlier call made for this caller, found in the intent's own list, which is
   * consistent, by the transaction id that every refund of ours carries.
   */
  findRefund(request: RefundRequest): Promise<RefundAtProvider | { outcome: 'none' }>;
  /**
   * Every refund of ours that an intent has, by its list, which is consistent: what was given back
   * before a ledger was set back.
   */
  listRefunds(intent: Pick<IntentQuery, 'intentId' | 'money'>): Promise<ListedRefunds>;
  /**
   * A page of the disputes that were made since a time, of whatever intent; `after` is a `next`.
   */
  listDisputes(query: { since: Date; after?: string }): Promise<ListedDisputes>;
};

/** What a log may show of a provider's error: neither keys nor cards nor secrets. */
export class ProviderError extends Error {
  override name = 'ProviderError';
  readonly type: string;
  readonly code: string | undefined;
  readonly statusCode: number | undefined;
  readonly requestId: string | undefined;
  constructor(details: {
    type: string;
    code?: string | undefined;
    statusCode?: number | undefined;
    requestId?: string | undefined;
  }) {
    super(
      [details.type, details.code, details.statusCode]
        .filter((each) => each !== undefined)
        .join(' '),
    );
    this.type = details.type;
    this.code = details.code;
    this.statusCode = details.statusCode;
    this.requestId = details.requestId;
  }
}

/** Whether it may be the id of one of a provider's objects: anything else makes no sense. */
export function isObjectId(value: unknown): value is string {
  return typeof value === 'string' && objectId.test(value);
}

// docs.stripe.com/upgrades: ids never exceed 255 characters. An end-to-end id has 35.
const objectId = /^[\w-]{1,255}$/;
