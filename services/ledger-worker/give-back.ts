import type { ReservedRefund, Refunds } from '@triplock/ledger';
import type { Settlement } from '@triplock/payments';
import type { Provider, RefundAtProvider, RefundRequest } from '@triplock/provider';
import type { CrashPoints } from '@triplock/runtime';
import type { AttemptOutcome } from './attempt-outcome.ts';

/** What giving money back stands on. */
export type GiveBackParts = {
  refunds: Pick<Refunds, 'settle' | 'storeRefundId' | 'find'>;
  provider: Pick<Provider, 'refund' | 'findRefund'>;
  crashPoints: Pick<CrashPoints, 'reached'>;
};

/** A reserved refund, and whether the provider may have been asked for it before. */
export type RefundToGive = {
  refund: ReservedRefund;
  traceparent: string;
  asked: 'never' | 'perhaps';
};

/**
 * Has the provider give a reserved refund back, once: whenever it may have been asked for before,
 * the charge's refunds are listed and looked through for this one. Within a day the idempotency key
 * would do; the list does so after any time.
 *
 * A refund has one key for ever, unlike a charge. After a 500 that the provider keeps it is unknown
 * whether the refund is yet to come, and no object refuses the second of two partial ones; so it
 * stays pending, and every look first lists, then asks under the same key, until the refund is in
 * the list or the provider has forgotten the key, after a day at the earliest.
 *
 * What is left open is a refund that the provider carries out more than a day after it was asked
 * for it, and a process that sleeps for so long between looking and asking.
 */
export async function giveBack(
  parts: GiveBackParts,
  { refund, traceparent, asked }: RefundToGive,
): Promise<AttemptOutcome> {
  const atProvider = await ask(parts.provider, requestOf(refund), asked);
  await parts.crashPoints.reached('worker.refunded');
  switch (atProvider.outcome) {
    case 'succeeded':
      return settle(parts, refund, {
        traceparent,
        result: { state: 'succeeded' },
        refundId: atProvider.refundId,
      });
    case 'refused': {
      const { failure, refundId } = atProvider;
      const result = { state: 'failed' as const, failure };
      return settle(parts, refund, { traceparent, result, ...(refundId ? { refundId } : {}) });
    }
    case 'waiting': {
      const { txnId, version } = refund;
      if (refund.provider.refundId === undefined) {
        await parts.refunds.storeRefundId({ txnId, version, refundId: atProvider.refundId });
      }
      return { outcome: 'waiting' };
    }
    case 'unknown':
      return { outcome: 'unknown', because: atProvider };
    default:
      return atProvider satisfies never;
  }
}

/** Asks the provider, after a look whenever it may have given the money back already. */
async function ask(
  provider: GiveBackParts['provider'],
  request: RefundRequest,
  asked: RefundToGive['asked'],
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

function requestOf(refund: ReservedRefund): RefundRequest {
  const { txnId, partnerId, key, money } = refund;
  const { intentId } = refund.provider;
  return { txnId, kind: 'refund', partnerId, key, intentId, money };
}

async function settle(
  { refunds, crashPoints }: GiveBackParts,
  { txnId, version }: ReservedRefund,
  end: { result: Settlement; traceparent: string; refundId?: string },
): Promise<AttemptOutcome> {
  const settled = await refunds.settle({ txnId, version, settledAt: new Date(), ...end });
  if (settled.outcome === 'settled') {
    await crashPoints.reached('worker.settled');
    return { outcome: 'settled', state: end.result.state };
  }
  const row = await refunds.find(txnId);
  return { outcome: 'taken-over', state: row?.state ?? 'pending' };
}
