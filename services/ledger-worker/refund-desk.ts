import { isFinal } from '@triplock/payments';
import { askUntilKnown, type AskingParts } from './ask-until-known.ts';
import {
  giveBack,
  type GiveBackOutcome,
  type GiveBackParts,
  type RefundToGive,
} from './give-back.ts';
import type { Turn } from './hand-over.ts';
import type { AttemptWord, WorkerMetrics } from './metrics.ts';

/** What giving back for batches stands on. */
export type RefundDeskParts = GiveBackParts &
  AskingParts & { metrics: Pick<WorkerMetrics, 'refunds'> };

/**
 * What a batch has to know of a refund. `handed-over`: it is pending, durable, and looked after.
 */
export type RefundFate = 'refunded' | 'refund-failed' | 'handed-over' | 'already-recorded';

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
      parts.metrics.refunds.count(wordFor(outcome));
      return outcome.outcome === 'unknown' ? outcome.because : fateOf(outcome);
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

function fateOf(outcome: Exclude<GiveBackOutcome, { outcome: 'unknown' }>): RefundFate {
  switch (outcome.outcome) {
    case 'settled':
      return outcome.state === 'succeeded' ? 'refunded' : 'refund-failed';
    case 'waiting':
      return 'handed-over';
    case 'taken-over':
      return isFinal(outcome.state) ? 'already-recorded' : 'handed-over';
    default:
      return outcome satisfies never;
  }
}

function wordFor(outcome: GiveBackOutcome): AttemptWord {
  return outcome.outcome === 'settled' ? outcome.state : outcome.outcome;
}
