import type { BucketEpoch, PendingRead } from '@triplock/claims';
import {
  isFollowUp,
  type AcceptedFollowUp,
  type PartnerId,
  type TransactionKind,
  type TxnId,
} from '@triplock/payments';
import type { Gateway } from '../gateway.ts';
import { askedOfCustomer, findPosted, isAtRest, renderPosted, type Posted } from './transaction.ts';

/** Which payment or refund, and who asks. */
export type Asked = {
  kind: TransactionKind;
  txnId: TxnId;
  partnerId: PartnerId;
  /** Whether who asks may act for its customer; else what that takes is not shown. */
  mayAct?: boolean;
  /** For the log, where somebody reads it. */
  requestId?: string;
};

/** What is known of it. Another partner's is not found. */
export type FindOutcome =
  /** `asksCustomer`: it waits for its customer, who has to be told what to do. */
  | { outcome: 'found'; body: string; atRest: boolean; asksCustomer: boolean }
  | { outcome: 'not-found' }
  /** The ledger is behind, and whether it is there, or what it is, is not known without it. */
  | { outcome: 'cold' };

/**
 * Finds one payment or refund: in the ledger, and until it is there beside the claim that accepted
 * it, so that what was accepted is never not found. Where what is shown of it, or the claim itself,
 * has ended before the ledger came so far, only the ledger can tell.
 *
 * @throws when the ledger, the claim store or, about what both do not know, Kafka does not answer.
 */
export async function findTransaction(gateway: Gateway, asked: Asked): Promise<FindOutcome> {
  const { claims, recovery, readBack } = gateway;
  const { txnId } = asked;
  const recordKey = knownRecordKey(asked);
  const posted = await findPosted(gateway, asked);
  if (posted !== undefined) return showPosted(gateway, posted, asked);
  const claimed = await claims.read(txnId);
  switch (claimed.outcome) {
    case 'pending': {
      if (!isAsked(claimed, asked)) return { outcome: 'not-found' };
      if (claimed.shown !== undefined) return showClaimed(claimed.shown, claimed);
      // It may have been posted, and shown no longer, since the ledger was asked.
      const late = await findPosted(gateway, asked);
      return late === undefined ? { outcome: 'cold' } : showPosted(gateway, late, asked);
    }
    case 'unknown': {
      if (!(await recovery.expiredArePosted(recordKey))) return { outcome: 'cold' };
      // Asked again, because it may have been posted meanwhile.
      const late = await findPosted(gateway, asked);
      return late === undefined ? { outcome: 'not-found' } : showPosted(gateway, late, asked);
    }
    case 'cold': {
      readBack.metCold();
      const { epoch, caughtUp } = await recovery.checkBarrier({ txnId, recordKey }, claimed);
      // Asked again, because only what the ledger says after the barrier counts.
      const late = await findPosted(gateway, asked);
      if (late !== undefined) return showPosted(gateway, late, asked);
      // And only in the epoch of that barrier: after another loss it would be too low.
      const still = caughtUp ? await claims.read(txnId) : undefined;
      return { outcome: still && holdsIn(epoch, still) ? 'not-found' : 'cold' };
    }
    default:
      return claimed satisfies never;
  }
}

/** The key of its record: what follows a payment has that one's, which its own id does not tell. */
export function knownRecordKey({ kind, txnId }: Pick<Asked, 'kind' | 'txnId'>): TxnId | undefined {
  return isFollowUp(kind) ? undefined : txnId;
}

/** What the ledger's row shows to whom. */
export function showPosted(gateway: Gateway, posted: Posted, asked: Asked): FindOutcome {
  if (posted.partnerId !== asked.partnerId) return { outcome: 'not-found' };
  const body = JSON.stringify(renderPosted(gateway, posted, asked));
  const asksCustomer = askedOfCustomer(posted) !== undefined;
  return { outcome: 'found', body, atRest: isAtRest(posted), asksCustomer };
}

type Claimed = Extract<PendingRead, { outcome: 'pending' }>;

/** Another partner's, or one of the other kind, is not found. */
function isAsked(claimed: Claimed, { partnerId, kind }: Pick<Asked, 'kind' | 'partnerId'>) {
  return claimed.partnerId === partnerId && claimed.kind === kind;
}

/**
 * What was written by whoever claimed last; the time of acceptance is the first one's, as the
 * ledger will have it.
 */
function showClaimed(shown: string, { acceptedAt }: Claimed): FindOutcome {
  const fields = JSON.parse(shown) as object;
  const body = JSON.stringify({ ...fields, created_at: acceptedAt.toISOString() });
  return { outcome: 'found', body, atRest: false, asksCustomer: false };
}

/** Whether a claim store that knew nothing still knows nothing, and has lost nothing since. */
function holdsIn(epoch: BucketEpoch, read: PendingRead): boolean {
  return read.outcome === 'unknown' || (read.outcome === 'cold' && read.epoch === epoch);
}

/** Whose a payment is; a missing one and another partner's look the same. */
export type OwnPaymentOutcome =
  | { outcome: 'own' }
  | { outcome: 'not-found' }
  /** Unknown to the ledger, and a claim was lost or has expired before it caught up. */
  | { outcome: 'cold' };

/**
 * Whether a payment is the partner's. For a day the claim that accepted it says so, whether it is
 * posted yet or not, and without the ledger; after that the ledger does. Neither ever says another
 * partner later, because an id is made from its partner.
 *
 * @throws when the claim store, or the ledger once it is asked, does not answer.
 */
export async function findOwnPayment(
  gateway: Gateway,
  payment: { paymentId: TxnId; partnerId: PartnerId },
): Promise<OwnPaymentOutcome> {
  const claimed = await gateway.claims.read(payment.paymentId);
  return ownerOf(gateway, claimed, payment);
}

/**
 * The same for what follows it, whose retry needs no ledger either: a refund that was accepted is
 * of a payment of the partner's, and what it asked for is compared when its key is claimed.
 *
 * @throws as {@link findOwnPayment} does.
 */
export async function findRefundable(
  gateway: Gateway,
  refund: Pick<AcceptedFollowUp, 'kind' | 'txnId' | 'paymentId' | 'partnerId'>,
): Promise<OwnPaymentOutcome> {
  const { kind, txnId, paymentId, partnerId } = refund;
  const claimed = await gateway.claims.read(paymentId);
  if (claimed.outcome !== 'pending') {
    const before = await gateway.claims.read(txnId);
    const asked = { partnerId, kind };
    if (before.outcome === 'pending' && isAsked(before, asked)) return { outcome: 'own' };
  }
  return ownerOf(gateway, claimed, refund);
}

async function ownerOf(
  gateway: Gateway,
  claimed: PendingRead,
  { paymentId, partnerId }: { paymentId: TxnId; partnerId: PartnerId },
): Promise<OwnPaymentOutcome> {
  const asked = { kind: 'payment', txnId: paymentId, partnerId } as const;
  if (claimed.outcome === 'pending') {
    return { outcome: isAsked(claimed, asked) ? 'own' : 'not-found' };
  }
  const found = await findTransaction(gateway, asked);
  return found.outcome === 'found' ? { outcome: 'own' } : found;
}
