import type { Claims, PendingRead } from '@triplock/claims';
import type { PartnerId, Payment, TxnId } from '@triplock/payments';
import { look, showClaimed, type ReadParts } from './read-transaction.ts';

/** What asking whose payment it is stands on. */
export type OwnPaymentParts = Pick<ReadParts<Payment>, 'form' | 'recovery'> & {
  claims: Pick<Claims, 'read'>;
};

type Seen = { claimed: PendingRead; paymentId: TxnId; partnerId: PartnerId };

/** Whose it is; a missing one and another partner's look the same. */
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
  parts: OwnPaymentParts,
  { paymentId, partnerId }: { paymentId: TxnId; partnerId: PartnerId },
): Promise<OwnPaymentOutcome> {
  const claimed = await parts.claims.read(paymentId);
  return sayWhose(parts, { claimed, paymentId, partnerId });
}

/**
 * The same for a refund of it, whose retry needs no ledger either: a refund that was accepted is of
 * a payment of the partner's, and what it asked for is compared when its key is claimed.
 *
 * @throws as {@link findOwnPayment} does.
 */
export async function findRefundable(
  parts: OwnPaymentParts,
  { txnId, paymentId, partnerId }: { txnId: TxnId; paymentId: TxnId; partnerId: PartnerId },
): Promise<OwnPaymentOutcome> {
  const claimed = await parts.claims.read(paymentId);
  if (claimed.outcome !== 'pending') {
    const before = await parts.claims.read(txnId);
    const asked = { partnerId, object: 'refund' } as const;
    if (before.outcome === 'pending' && showClaimed(before, asked).outcome === 'found') {
      return { outcome: 'own' };
    }
  }
  return sayWhose(parts, { claimed, paymentId, partnerId });
}

async function sayWhose(
  parts: OwnPaymentParts,
  { claimed, paymentId, partnerId }: Seen,
): Promise<OwnPaymentOutcome> {
  const seen =
    claimed.outcome === 'pending'
      ? showClaimed(claimed, { partnerId, object: 'payment' })
      : await look(parts, { txnId: paymentId, partnerId });
  return seen.outcome === 'found' ? { outcome: 'own' } : seen;
}
