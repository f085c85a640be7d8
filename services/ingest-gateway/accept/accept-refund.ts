import type { AcceptedRefund } from '@triplock/payments';
import {
  acceptTransaction,
  type AcceptOutcome,
  type AcceptParts,
  type Order,
} from './accept-transaction.ts';
import { findRefundable, type OwnPaymentParts } from './own-payment.ts';

/** What accepting a refund stands on: the story of every acceptance, and whose the payments are. */
export type AcceptRefundParts = AcceptParts<AcceptedRefund> & { payments: OwnPaymentParts };

/**
 * Accepts a refund of a payment of the partner's own. Whose it is comes before the claim, so that a
 * wrong payment id uses up no key.
 */
export async function acceptRefund(
  parts: AcceptRefundParts,
  order: Order<AcceptedRefund>,
): Promise<AcceptOutcome | { outcome: 'not-found' }> {
  const asked = findRefundable(parts.payments, order.transaction);
  const found = await order.budget
    .hold(asked, 'finding the payment')
    .catch((error: unknown) => ({ outcome: 'unavailable', error }) as const);
  return found.outcome === 'own' ? acceptTransaction(parts, order) : found;
}
