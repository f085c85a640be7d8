import {
  canceledBy,
  refusalOf,
  type ReservedFollowUp,
  type SettleFollowUpRequest,
} from '@triplock/ledger';
import type { Payment } from '@triplock/payments';
import type { CaptureOutcome, IntentQuery, Unknown } from '@triplock/provider';
import { settleFollowUp, type FollowUpToDo } from './follow-up.ts';
import type { AttemptOutcome, WorkerAt } from '../worker.ts';

/** What a kind that ends an authorisation has done for that. */
export type Closing = {
  /** Has the provider do it. */
  ask(worker: WorkerAt, followUp: ReservedFollowUp, intent: IntentQuery): Promise<CaptureOutcome>;
  /** Whether what became of the intent is what was asked for. */
  isDone(followUp: ReservedFollowUp, seen: CaptureOutcome): boolean;
};

/**
 * Captures or cancels an authorised payment that this one alone holds, and settles both rows by
 * what the intent says then. It may die between any two steps and be called again, by anyone: the
 * intent is captured or let go once, and tells which, however late it is asked.
 *
 * Who holds the payment was decided in the ledger, before the provider was asked: so a capture that
 * meets an intent which was let go met its expiry, or somebody at the provider's own page, and both
 * rows end as the provider's books have it. One that meets another amount met such a person too. It
 * fails and lets go of the payment, which stays pending until a capture of that amount comes.
 */
export async function endAuthorization(
  worker: WorkerAt,
  given: FollowUpToDo,
  closing: Closing,
): Promise<AttemptOutcome> {
  const { followUp, traceparent, asked } = given;
  const payment = await worker.ledger.find(followUp.paymentId);
  if (payment === undefined)
    throw new Error(`the payment of ${followUp.kind} ${followUp.txnId} is gone`);
  const seen = await askProvider(worker, { followUp, payment, asked }, closing);
  const end = endOf(followUp, seen, closing);
  switch (end.outcome) {
    case 'ended': {
      const { result, payment: ends } = end;
      return settleFollowUp(worker, followUp, {
        traceparent,
        result,
        ...(ends && { payment: ends }),
      });
    }
    case 'waiting':
      return end;
    case 'unknown':
      return { outcome: 'unknown', because: end };
    default:
      return end satisfies never;
  }
}

/** Nothing is asked for twice where the intent shows that it was done. */
async function askProvider(
  worker: WorkerAt,
  { followUp, payment, asked }: Pick<FollowUpToDo, 'followUp' | 'asked'> & { payment: Payment },
  { ask }: Closing,
): Promise<CaptureOutcome> {
  const { intentId } = followUp.provider;
  const intent = { intentId, txnId: payment.txnId, money: payment.details.money };
  if (asked === 'perhaps') {
    const seen = await worker.provider.readIntent(intent);
    if (seen.outcome !== 'authorized') return seen;
  }
  return ask(worker, followUp, intent);
}

type End =
  | ({ outcome: 'ended' } & Pick<SettleFollowUpRequest, 'result' | 'payment'>)
  | { outcome: 'waiting' }
  | Unknown;

/** What both rows come to: this one, and its payment unless that stays authorised. */
function endOf(followUp: ReservedFollowUp, seen: CaptureOutcome, { isDone }: Closing): End {
  switch (seen.outcome) {
    case 'succeeded': {
      const { chargeId, received: amount } = seen;
      if (!isDone(followUp, seen)) {
        const failure = refusalOf('payment_already_captured');
        return { outcome: 'ended', result: { state: 'failed', failure } };
      }
      return {
        outcome: 'ended',
        result: { state: 'succeeded' },
        payment: { result: { state: 'captured', amount }, chargeId },
      };
    }
    case 'declined': {
      const result = canceledBy(seen.failure);
      const failed = { state: 'failed', failure: result.failure } as const;
      return {
        outcome: 'ended',
        result: isDone(followUp, seen) ? { state: 'succeeded' } : failed,
        payment: { result },
      };
    }
    case 'refused':
      return { outcome: 'ended', result: { state: 'failed', failure: seen.failure } };
    case 'waiting':
      return { outcome: 'waiting' };
    case 'authorized':
    case 'reopened':
    case 'unconfirmed': {
      const error = new Error(
        `the intent of ${followUp.kind} ${followUp.txnId} is ${seen.outcome}`,
      );
      return { outcome: 'unknown', error, kept: false, sent: true };
    }
    case 'unknown':
      return seen;
    default:
      return seen satisfies never;
  }
}
