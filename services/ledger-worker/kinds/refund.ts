import type { ReservedFollowUp } from '@triplock/ledger';
import { mayBeForgotten, type RefundAtProvider, type RefundRequest } from '@triplock/provider';
import type { WorkerAt } from '../worker.ts';
import { settleFollowUp, type CarryOut, type FollowUpToDo } from './follow-up.ts';

/**
 * Has the provider give a reserved refund back, once: whenever it may have been asked for before,
 * the charge's refunds are listed and looked through for this one. Within a day the idempotency key
 * would do; the list does so after any time. An old refund's row that seems new may have been set
 * back by a restore, after the money was given back: it is looked for too.
 *
 * A refund has one key for ever, unlike a charge. After a 500 that the provider keeps it is unknown
 * whether the refund is yet to come, and no object refuses the second of two partial ones; so it
 * stays pending, and every attempt first lists, then asks under the same key, until the refund is
 * in the list or the provider has forgotten the key, after a day at the earliest.
 *
 * What is left open is a refund that the provider carries out more than a day after it was asked
 * for it, and a process that sleeps for so long between looking and asking.
 */
export const refund: CarryOut = async (worker, { followUp, traceparent, asked }) => {
  const first = asked === 'never' && !mayBeForgotten(followUp.acceptedAt);
  const atProvider = await ask(worker, requestOf(followUp), first ? 'never' : 'perhaps');
  await worker.crashPoints.reached('worker.refunded');
  switch (atProvider.outcome) {
    case 'succeeded':
      return settleFollowUp(worker, followUp, {
        traceparent,
        result: { state: 'succeeded' },
        refundId: atProvider.refundId,
      });
    case 'refused': {
      const { failure, refundId } = atProvider;
      const result = { state: 'failed' as const, failure };
      return settleFollowUp(worker, followUp, {
        traceparent,
        result,
        ...(refundId ? { refundId } : {}),
      });
    }
    case 'waiting': {
      const { txnId, version } = followUp;
      if (followUp.provider.refundId === undefined) {
        await worker.followUps.storeRefundId({ txnId, version, refundId: atProvider.refundId });
      }
      return { outcome: 'waiting' };
    }
    case 'unknown':
      return { outcome: 'unknown', because: atProvider };
    default:
      return atProvider satisfies never;
  }
};

/** Asks the provider, after a look whenever it may have given the money back already. */
async function ask(
  { provider }: WorkerAt,
  request: RefundRequest,
  asked: FollowUpToDo['asked'],
): Promise<RefundAtProvider> {
  if (asked === 'perhaps') {
    const found = await provider.findRefund(request);
    if (found.outcome !== 'none') return found;
  }
  const answer = await provider.refund(request);
  if (answer.outcome === 'succeeded' || answer.outcome === 'waiting') return answer;
  if (answer.outcome === 'unknown' && !answer.sent) return answer;
  // A refusal may be about what somebody else gave back for this very refund.
  const found = await provider.findRefund(request);
  return found.outcome === 'none' ? answer : found;
}

function requestOf(refund: ReservedFollowUp): RefundRequest {
  const { txnId, partnerId, key, money } = refund;
  const { intentId } = refund.provider;
  return { txnId, kind: 'refund', partnerId, key, intentId, money };
}
