import { canceledBy, refusalOf, type SettleFollowUpRequest } from '@triplock/ledger';
import type { Payment, TxnId } from '@triplock/payments';
import {
  nextAttempt,
  type CaptureOutcome,
  type CaptureRequest,
  type Unknown,
} from '@triplock/provider';
import { giveBack, settle, type FollowUpToDo } from './refund.ts';
import type { AttemptOutcome, Worker } from '../worker.ts';

/** Has the provider do what follows a payment, once, and settles it. */
export async function carryOut(worker: Worker, given: FollowUpToDo): Promise<AttemptOutcome> {
  const { kind } = given.followUp;
  switch (kind) {
    case 'refund':
      return giveBack(worker, given);
    case 'capture':
    case 'cancellation':
      return endAuthorization(worker, given);
    default:
      return kind satisfies never;
  }
}

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
async function endAuthorization(worker: Worker, given: FollowUpToDo): Promise<AttemptOutcome> {
  const { followUp, traceparent, asked } = given;
  const payment = await worker.ledger.find(followUp.paymentId);
  if (payment === undefined)
    throw new Error(`the payment of ${followUp.kind} ${followUp.txnId} is gone`);
  const seen = await askProvider(worker, { followUp, payment, asked });
  const end = endOf(given, seen);
  switch (end.outcome) {
    case 'ended': {
      const { result, payment: ends } = end;
      return settle(worker, followUp, { traceparent, result, ...(ends && { payment: ends }) });
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
  worker: Worker,
  { followUp, payment, asked }: Pick<FollowUpToDo, 'followUp' | 'asked'> & { payment: Payment },
): Promise<CaptureOutcome> {
  const { provider, crashPoints } = worker;
  const { intentId } = followUp.provider;
  const intent = { intentId, txnId: payment.txnId, money: payment.details.money };
  if (asked === 'perhaps') {
    const seen = await provider.readIntent(intent);
    if (seen.outcome !== 'authorized') return seen;
  }
  if (followUp.kind === 'cancellation') {
    const ended = await provider.cancelIntent({ ...intent, because: 'requested_by_customer' });
    await crashPoints.reached('worker.cancelled');
    return ended;
  }
  const { partnerId, key, money } = followUp;
  const caller = { kind: 'capture' as const, partnerId, key, attempt: 1 };
  const captured = await capture(worker, { ...caller, ...intent, amount: money.amount });
  await crashPoints.reached('worker.captured');
  return captured;
}

/**
 * Captures, and goes by the intent's own state when the answer is not known. Another attempt is
 * made only after the intent was seen authorised, and it is captured once whatever was sent.
 */
async function capture(worker: Worker, request: CaptureRequest): Promise<CaptureOutcome> {
  const answer = await worker.provider.captureIntent(request);
  if (answer.outcome !== 'unknown' || !answer.sent) return answer;
  const seen = await worker.provider.readIntent(request);
  // It was sent, whatever became of the read.
  if (seen.outcome === 'unknown') return answer;
  if (seen.outcome !== 'authorized') return seen;
  const attempt = nextAttempt(request.attempt, answer);
  return attempt === undefined ? answer : capture(worker, { ...request, attempt });
}

type End =
  | ({ outcome: 'ended' } & Pick<SettleFollowUpRequest, 'result' | 'payment'>)
  | { outcome: 'waiting' }
  | Unknown;

/** What both rows come to: this one, and its payment unless that stays authorised. */
function endOf({ followUp }: Pick<FollowUpToDo, 'followUp'>, seen: CaptureOutcome): End {
  switch (seen.outcome) {
    case 'succeeded': {
      const { chargeId, received: amount } = seen;
      const isOurs = followUp.kind === 'capture' && amount === followUp.money.amount;
      if (!isOurs) {
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
      const isOurs = followUp.kind === 'cancellation' && seen.failure.code === 'payment_canceled';
      const failed = { state: 'failed', failure: result.failure } as const;
      return {
        outcome: 'ended',
        result: isOurs ? { state: 'succeeded' } : failed,
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

/** What a payment waits for that was captured at the provider, and by no capture of ours. */
export function capturedByHand(txnId: TxnId): AttemptOutcome {
  const error = new Error(
    `payment ${txnId} was captured at the provider and by no capture of ours`,
  );
  const because: Unknown = {
    outcome: 'unknown',
    error,
    kept: false,
    sent: true,
    untilMended: true,
  };
  return { outcome: 'unknown', because };
}
