import { isFinal } from '@triplock/payments';
import { attemptWord, fateOfAttempt } from './attempt-outcome.ts';
import { askUntilKnown, type AskingParts } from './ask-until-known.ts';
import { giveBack, type GiveBackParts, type RefundToGive } from './give-back.ts';
import type { Turn } from './hand-over.ts';
import type { WorkerMetrics } from './metrics.ts';

/** What giving back for batches stands on. */
export type RefundDeskParts = GiveBackParts &
  AskingParts & { metrics: Pick<WorkerMetrics, 'refunds'> };

/**
 * What a batch has to know of a refund. `handed-over`: it is pending, durable, and looked after.
 */
export type RefundFate = 'refunded' | 'refund-failed' | 'handed-over' | 'already-recorded';

const ended = { succeeded: 'refunded', failed: 'refund-failed' } as const;

/**
 * Gives a reserved refund back. Only the first attempt of one that was reserved just now may ask
 * without looking: later, a resolver may have had its turn.
 */
export function giveBackInTime(
  parts: RefundDeskParts,
  given: RefundToGive,
  turn: Turn,
): Promise<RefundFate> {
  return askUntilKnown<RefundFate>(parts, {
    transaction: given.refund,
    turn,
    attempt: async (again) => {
      const now = turn.waited || again ? await asItStands(parts, given) : given;
      if (now === undefined) return 'already-recorded';
      const outcome = await giveBack(parts, now);
      parts.metrics.refunds.count(attemptWord(outcome));
      return outcome.outcome === 'unknown' ? outcome.because : fateOfAttempt(outcome, ended);
    },
  });
}

async function asItStands(
  { refunds }: RefundDeskParts,
  { refund, traceparent }: RefundToGive,
): Promise<RefundToGive | undefined> {
  const row = await refunds.find(refund.txnId);
  if (row === undefined || isFinal(row.state)) return undefined;
  // What was reserved stays so, and the charge is the payment's for ever.
  const { money = refund.money, provider = refund.provider } = row;
  return { refund: { ...row, money, provider }, traceparent, asked: 'perhaps' };
}
