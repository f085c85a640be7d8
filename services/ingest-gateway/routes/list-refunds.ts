import { renderRefund, type RefundListQuery } from '@triplock/contracts';
import type { Refunds } from '@triplock/ledger';
import type { PartnerId, TxnId } from '@triplock/payments';
import type { ListPageOutcome } from './list-payments.ts';
import { findOwnPayment, type OwnPaymentParts } from '../accept/own-payment.ts';
import { startBudget } from '../http/time-budget.ts';

/** What listing stands on. */
export type ListRefundsParts = {
  refunds: Pick<Refunds, 'listOf'>;
  payments: OwnPaymentParts;
  /** How long it may take, milliseconds. */
  budgetMs: number;
};

/** What asking for a page of a payment's refunds gives. */
export type RefundPageOutcome =
  | ListPageOutcome
  /** Nobody's payment, or another partner's. */
  | { outcome: 'not-found' }
  /** Unknown to the ledger, and the claims were lost before it caught up. */
  | { outcome: 'cold' };

type Asked = { paymentId: TxnId; partnerId: PartnerId; query: RefundListQuery };

/**
 * One page of what the ledger has posted of a payment's refunds; an accepted one that is not posted
 * yet is read by its id.
 *
 * @throws when a store does not answer in time.
 */
export function listRefunds(parts: ListRefundsParts, asked: Asked): Promise<RefundPageOutcome> {
  return startBudget(parts.budgetMs).hold(list(parts, asked), 'listing');
}

async function list(
  { refunds, payments }: ListRefundsParts,
  { paymentId, partnerId, query }: Asked,
): Promise<RefundPageOutcome> {
  const found = await findOwnPayment(payments, { paymentId, partnerId });
  if (found.outcome !== 'own') return found;
  const { limit, startingAfter: after } = query;
  const listed = await refunds.listOf({ paymentId, partnerId, limit, after });
  if (listed.outcome === 'unknown-cursor') return listed;
  const data = listed.refunds.map(renderRefund);
  return {
    outcome: 'page',
    body: JSON.stringify({ object: 'list', data, has_more: listed.hasMore }),
  };
}
