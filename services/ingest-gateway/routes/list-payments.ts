import { renderPayment, type PaymentListQuery } from '@triplock/contracts';
import type { Ledger } from '@triplock/ledger';
import type { PartnerId } from '@triplock/payments';
import { startBudget } from '../http/time-budget.ts';

/** What listing stands on. */
export type ListParts = {
  ledger: Pick<Ledger, 'list'>;
  /** How long it may take, milliseconds. */
  budgetMs: number;
};

/** What asking for a page gives. Another partner's payment is an unknown cursor. */
export type ListPageOutcome = { outcome: 'page'; body: string } | { outcome: 'unknown-cursor' };

/**
 * One page of what the ledger has posted for a partner. Accepted payments that are not posted yet
 * are not in it: the claims are found by id only, and the ledger's order is the one that a walk
 * from page to page can rely on.
 *
 * @throws when the ledger does not answer in time.
 */
export async function listPayments(
  { ledger, budgetMs }: ListParts,
  { partnerId, query }: { partnerId: PartnerId; query: PaymentListQuery },
): Promise<ListPageOutcome> {
  const { limit, startingAfter: after, status: state, reference } = query;
  const asked = ledger.list({ partnerId, limit, after, state, reference });
  const listed = await startBudget(budgetMs).hold(asked, 'listing');
  if (listed.outcome === 'unknown-cursor') return listed;
  const data = listed.payments.map(renderPayment);
  return {
    outcome: 'page',
    body: JSON.stringify({ object: 'list', data, has_more: listed.hasMore }),
  };
}
