import { bucketCount, claimLifeMs } from '@triplock/contracts';
import type { Brand, Fingerprint, PartnerId, TransactionKind, TxnId } from '@triplock/payments';
import type { Logger } from '@triplock/runtime';

/** Whose a claim is: random per claim, compared before anything is written again. */
export type OwnerToken = Brand<string, 'OwnerToken'>;

/** Names the time since a bucket's last loss: every loss begins another epoch. */
export type BucketEpoch = Brand<string, 'BucketEpoch'>;

/** The store did not answer in time or cannot be used. What was asked for may have happened. */
export class ClaimsUnavailableError extends Error {
  override name = 'ClaimsUnavailableError';
}

/** What any failure of a store's client means for a caller. */
export function unavailable(error: unknown): ClaimsUnavailableError {
  const message = error instanceof Error ? error.message : String(error);
  return new ClaimsUnavailableError(message, { cause: error });
}

/** What every claim store is opened with. */
export type ClaimsOptions = {
  /** Part of every key, so that several systems can share a store. */
  namespace: string;
  logger: Logger;
} & Partial<ClaimTimes>;

/** How long things may take, milliseconds. */
export type ClaimTimes = {
  /** How long the one at work is left alone. */
  leaseMs: number;
  /** How long a claim is remembered, from when it was last made or completed. */
  lifeMs: number;
  /** How long what a read shows is kept from when it was last written or renewed. */
  shownMs: number;
  /** How long the store may take to answer. */
  answerTimeoutMs: number;
};

/**
 * A lease is ten times a request's limit, and an answer half of one. The life is what partners are
 * promised. A payment is in the ledger within seconds, and then nobody reads its claim any more.
 */
export const claimTimes: ClaimTimes = {
  leaseMs: 30_000,
  lifeMs: claimLifeMs,
  shownMs: 60_000,
  answerTimeoutMs: 1_500,
};

/**
 * The longest text to be shown that every store keeps, in bytes of UTF-8; the least of them has
 * items of 400 KiB at most. Requests of 64 KiB are shown in a third of this.
 */
export const shownBytesMax = 256 * 1024;

/**
 * What one partner may hold in a store that it would else fill for everybody. It is counted in the
 * step that claims, so that a bound holds however many claim at once. It is counted by bucket and
 * by the hour in which claims began: a partner is stopped somewhat sooner, and its claims count for
 * up to an hour longer than they live.
 *
 * A store that is a service paid by use bounds claims alone. It has no memory or disk that what one
 * partner sent could fill for others: each of these bytes is paid for when it is written, as often
 * as the rate of its partner lets it, and gone by itself. Counting them would double what every
 * renewal costs.
 */
export type PartnerLimits = {
  /** Claims that live at once. */
  claimsPerPartner: number;
  /** Bytes that are kept to be shown, of the last two of their short lives. */
  shownBytesPerPartner: number;
};

/** A bucket's share of what a partner may hold: by it stores count, and each claim in one. */
export function bucketLimits({ claimsPerPartner, shownBytesPerPartner }: PartnerLimits) {
  const shareOf = (all: number) => Math.ceil(all / bucketCount);
  return { claims: shareOf(claimsPerPartner), shown: shareOf(shownBytesPerPartner) };
}

/**
 * Together less than 80 % of the 256 MB that the compose file gives Redis: one partner alone makes
 * nobody wait. A soak of half an hour is 180 000 claims.
 */
export const partnerLimits: PartnerLimits = {
  claimsPerPartner: 400_000,
  shownBytesPerPartner: 48 * 1024 * 1024,
};

/**
 * What a claim is asked for. The claim remembers for its life what is short, however long the
 * request is: the 202 is made anew of whichever request carries its fingerprint.
 */
export type ClaimRequest = {
  txnId: TxnId;
  partnerId: PartnerId;
  kind: TransactionKind;
  fingerprint: Fingerprint;
  acceptedAt: Date;
  /** The form in which the 202 is rendered. */
  responseVersion: number;
  /** The key of its record in the accepted topic: a refund's is its payment's id. */
  recordKey: TxnId;
  /** What a read shows while the ledger has no row (JSON), kept apart and for a short time. */
  shown: string;
  /**
   * Claim although the bucket is cold, because the ledger was asked after the barrier and knows
   * no such payment. Holds only while the bucket is still in this epoch.
   */
  ledgerCheckedIn?: BucketEpoch;
};

/** What the first claim of a request settled, so that all answers to it are the same bytes. */
export type FirstClaim = Pick<ClaimRequest, 'acceptedAt' | 'responseVersion'>;

/** What a bucket's marker says: since which loss it remembers, and what that loss calls for. */
export type BucketMarker = {
  epoch: BucketEpoch;
  /** The Kafka offsets the ledger must have passed; absent until somebody has read them. */
  barrier?: string;
};

/** A key that is missing from this bucket proves nothing. No epoch: the loss is not noted yet. */
export type Cold = { outcome: 'cold' } & Partial<BucketMarker>;

/** What a claim came to. */
export type ClaimOutcome =
  /** Ours to do, as the first claim of it when this one took over. */
  | ({ outcome: 'claimed'; token: OwnerToken } & FirstClaim)
  /** Done before, by the same request: give the same answer again. */
  | ({ outcome: 'completed' } & FirstClaim)
  /** Same key, other request. Checked before everything else. */
  | { outcome: 'reused' }
  | { outcome: 'in-flight'; leaseLeftMs: number }
  /** Not claimed, because the partner holds as much as it may, for about so long. */
  | { outcome: 'over-limit'; retryAfterMs: number }
  | Cold;

/** What the store knows of an id that the ledger does not know. */
export type PendingRead =
  /** Claimed. Without `shown` its time was over: only the ledger can show it. */
  | (Pick<ClaimRequest, 'partnerId' | 'kind' | 'acceptedAt'> & {
      outcome: 'pending';
      shown?: string;
      /**
       * Present until its request is known to have been answered. Released or not, whoever claimed
       * last is at work until its lease would end; below zero it has been over for so long.
       */
      underWay?: { leaseLeftMs: number };
    })
  | { outcome: 'unknown' }
  | Cold;

/**
 * Guard 1: at most one request at work per (kind, partner, key), and that it was answered.
 *
 * A claim's record lives 24 h from when it was completed, or was last claimed, so that nothing
 * accepted is forgotten sooner; inside it the lease of the one at work ends after 30 s. Both are
 * measured by the store's clock and never by a caller's. Every method is one atomic step and
 * rejects with a ClaimsUnavailableError when the store does not answer in time: the outcome is then
 * unknown, and asking again is safe. A claim that is made all the same is released as soon as the
 * store answers again, so that nobody waits for a lease under which nobody works.
 */
export type Claims = {
  claim(request: ClaimRequest): Promise<ClaimOutcome>;
  /**
   * Notes that the request gets its 202. `lost` when the claim is no longer this owner's; nothing
   * was written.
   */
  complete(owner: ClaimOwner): Promise<'completed' | 'lost'>;
  /** Ends the lease at once and keeps the fingerprint, so that only the same request takes over. */
  release(owner: ClaimOwner): Promise<'released' | 'lost'>;
  read(txnId: TxnId): Promise<PendingRead>;
  /** Has what reads show of some claims begin its short time anew, where it is not over. */
  renewShown(claims: readonly ShownClaim[]): Promise<void>;
  /** Begins a new epoch for a bucket that forgot. For any other, returns the one it is in. */
  noteLoss(bucket: number): Promise<BucketMarker>;
  /**
   * Stores what the ledger must have passed before the bucket's silence means anything, unless a
   * barrier is there or another epoch began. `warm`: nothing could have been lost, because nothing
   * was ever accepted.
   */
  setBarrier(mark: {
    bucket: number;
    epoch: BucketEpoch;
    barrier: string;
    warm: boolean;
  }): Promise<void>;
  /**
   * Marks a bucket cold without losing what it holds: claims may have been made elsewhere, such as
   * in another store that stood in for this one. No gateway may be at work on it.
   */
  markCold(bucket: number): Promise<void>;
  /** What the store's memory was when it was last seen; stores on disk have none to fill. */
  memory?(): StoreMemory | undefined;
  ping(): Promise<void>;
  close(): Promise<void>;
};

/** Bytes. Without a limit the store takes what its machine has. */
export type StoreMemory = { usedBytes: number; limitBytes?: number };

/** Who finishes a claim. */
export type ClaimOwner = { txnId: TxnId; token: OwnerToken };

/** A claim of which reads show something. */
export type ShownClaim = Pick<ClaimRequest, 'txnId' | 'partnerId'>;

/** A claim whose request was answered: its partner was promised that it takes effect. */
export type CompletedClaim = {
  txnId: TxnId;
  partnerId: PartnerId;
  fingerprint: Fingerprint;
  /** The first claim's, by the clock of a gateway. */
  acceptedAt: Date;
  recordKey: TxnId;
};

/** A step of a walk. `next` is where the following one begins; without it the walk is over. */
export type WalkStep = { claims: readonly CompletedClaim[]; next?: string };

/**
 * Reads what guard 1 remembers, and can write nothing: for whoever compares it with the ledger.
 *
 * A whole walk leads from a step without `after` to one without `next`. It gives every claim that
 * was completed before the walk began and lives until it is over, at least once. A claim may come
 * twice, and one that is completed or ends meanwhile may come or not, as with Redis's SCAN. A
 * cursor may be handed to another reader of the same store at any time; where the store has
 * restarted or failed over since, the step begins the walk anew.
 *
 * A step looks at about `limit` records, completed or not, so that it takes milliseconds of the
 * store however many there are; it may give none and still not be the last. What a store has
 * forgotten is not given, and that proves nothing.
 *
 * Each method rejects with a ClaimsUnavailableError when the store does not answer in time.
 */
export type ClaimWalk = {
  walk(step: { after?: string; limit: number }): Promise<WalkStep>;
  close(): Promise<void>;
};
