import type { BucketEpoch, PendingRead } from '@triplock/claims';
import { isFinal, type PartnerId, type TransactionKind, type TxnId } from '@triplock/payments';
import type { Gateway } from '../gateway.ts';
import { findPosted, renderPosted, type Posted } from './transaction.ts';

/** Which payment or refund, and who asks. */
export type Asked = { kind: TransactionKind; txnId: TxnId; partnerId: PartnerId };

/** What is known of it. Another partner's is not found. */
export type FindOutcome =
  | { outcome: 'found'; body: string; final: boolean }
  | { outcome: 'not-found' }
  /** Unknown to the ledger, and a claim was lost or has expired before it caught up. */
  | { outcome: 'cold' };

/**
 * Finds one payment or refund: in the ledger, and until it is there in the claim that accepted it,
 * so that what was accepted is never not found. Where claims have expired before the ledger came so
 * far, nobody can tell.
 *
 * @throws when the ledger, the claim store or, about what both do not know, Kafka does not answer.
 */
export async function findTransaction(gateway: Gateway, asked: Asked): Promise<FindOutcome> {
  const { claims, recovery, metrics } = gateway;
  const { txnId } = asked;
  // The record of a refund has the key of its payment, which is not known here.
  const recordKey = asked.kind === 'payment' ? txnId : undefined;
  const posted = await findPosted(gateway, asked);
  if (posted !== undefined) return showPosted(posted, asked);
  const claimed = await claims.read(txnId);
  switch (claimed.outcome) {
    case 'pending':
      return showClaimed(claimed, asked);
    case 'unknown': {
      if (!(await recovery.expiredArePosted(recordKey))) return { outcome: 'cold' };
      // Asked again, because it may have been posted meanwhile.
      const late = await findPosted(gateway, asked);
      return late === undefined ? { outcome: 'not-found' } : showPosted(late, asked);
    }
    case 'cold': {
      metrics.metCold();
      const { epoch, caughtUp } = await recovery.checkBarrier({ txnId, recordKey }, claimed);
      // Asked again, because only what the ledger says after the barrier counts.
      const late = await findPosted(gateway, asked);
      if (late !== undefined) return showPosted(late, asked);
      // And only in the epoch of that barrier: after another loss it would be too low.
      const still = caughtUp ? await claims.read(txnId) : undefined;
      return { outcome: still && holdsIn(epoch, still) ? 'not-found' : 'cold' };
    }
    default:
      return claimed satisfies never;
  }
}

/** What the ledger's row shows to whom. */
export function showPosted(posted: Posted, { partnerId }: Asked): FindOutcome {
  if (posted.partnerId !== partnerId) return { outcome: 'not-found' };
  const body = JSON.stringify(renderPosted(posted));
  return { outcome: 'found', body, final: isFinal(posted.state) };
}

/** What a claim shows to whom: another partner's, or one of the other kind, is not found. */
function showClaimed(
  { partnerId, shown }: Extract<PendingRead, { outcome: 'pending' }>,
  asked: Pick<Asked, 'kind' | 'partnerId'>,
): FindOutcome {
  const { object } = JSON.parse(shown) as { object?: string };
  if (partnerId !== asked.partnerId || object !== asked.kind) return { outcome: 'not-found' };
  return { outcome: 'found', body: shown, final: false };
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
 * The same for a refund of it, whose retry needs no ledger either: a refund that was accepted is of
 * a payment of the partner's, and what it asked for is compared when its key is claimed.
 *
 * @throws as {@link findOwnPayment} does.
 */
export async function findRefundable(
  gateway: Gateway,
  refund: { txnId: TxnId; paymentId: TxnId; partnerId: PartnerId },
): Promise<OwnPaymentOutcome> {
  const { txnId, paymentId, partnerId } = refund;
  const claimed = await gateway.claims.read(paymentId);
  if (claimed.outcome !== 'pending') {
    const before = await gateway.claims.read(txnId);
    const asked = { partnerId, kind: 'refund' } as const;
    if (before.outcome === 'pending' && showClaimed(before, asked).outcome === 'found') {
      return { outcome: 'own' };
    }
  }
  return ownerOf(gateway, claimed, refund);
}

async function ownerOf(
  gateway: Gateway,
  claimed: PendingRead,
  { paymentId, partnerId }: { paymentId: TxnId; partnerId: PartnerId },
): Promise<OwnPaymentOutcome> {
  const asked = { kind: 'payment', txnId: paymentId, partnerId } as const;
  const found =
    claimed.outcome === 'pending'
      ? showClaimed(claimed, asked)
      : await findTransaction(gateway, asked);
  return found.outcome === 'found' ? { outcome: 'own' } : found;
}
