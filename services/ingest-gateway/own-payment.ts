import type { Claims } from '@triplock/claims';
import type { PartnerId, Payment, TxnId } from '@triplock/payments';
import { look, showClaimed, type ReadParts } from './read-transaction.ts';

/** What asking whose payment it is stands on. */
export type OwnPaymentParts = Pick<ReadParts<Payment>, 'form' | 'memory'> & {
  claims: Pick<Claims, 'read'>;
};

/** Whose it is; nobody's and another partner's look the same. */
export type OwnPaymentOutcome =
  | { outcome: 'own' }
  | { outcome: 'not-found' }
  /** Unknown to the ledger, and the claims were lost before it caught up. */
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
  const seen =
    claimed.outcome === 'pending'
      ? showClaimed(claimed, { partnerId, object: 'payment' })
      : await look(parts, { txnId: paymentId, partnerId });
  return seen.outcome === 'found' ? { outcome: 'own' } : seen;
}
